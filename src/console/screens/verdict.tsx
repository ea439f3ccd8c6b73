import type { ComponentChildren } from 'preact';
import { api, ask, type Overview } from '../api.ts';
import { distance, inFull, isEndingSoon, now } from '../dates.ts';
import { useLoad } from '../load.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { AccountLink } from '../ui/inline.tsx';
import { NotInForce } from './system.tsx';

const say = texts.verdict;

/** The state of the sidecar in one sentence: whether it serves requests, and what needs an operator. */
export function Verdict({ overview }: { overview: Overview }) {
  const { ready, database } = overview;
  const needs = listNeeds(overview);
  const tone = ready ? (needs.length === 0 ? 'good' : 'warn') : 'bad';
  return (
    <>
      {database?.connected === false && (
        <p class="box bad" role="status">
          {say.databaseAway}{' '}
          {database.cached_until === null
            ? say.noCachedKeys
            : say.cachedKeys(distance(Date.parse(database.cached_until), now.value), inFull(database.cached_until))}
        </p>
      )}
      <p class={`box ${tone}`}>
        <strong>{ready ? say.serving : say.notReady}</strong> {say.needs(needs.length)}
        {needs.map((need, i) => (
          <span key={i}>
            {i === 0 ? ' ' : ' · '}
            {need}
          </span>
        ))}
      </p>
      <NotInForce overview={overview} />
    </>
  );
}

function listNeeds({ configuration, accounts_file: accountsFile, certificates, counts }: Overview) {
  const needs: ComponentChildren[] = [];
  const add = (text: string, page: 'system' | 'rotation'): void => {
    needs.push(<a href={linkTo(page)}>{text}</a>);
  };
  if (!configuration.in_force) add(say.configuration, 'system');
  if (accountsFile?.in_force === false) add(say.accountsFile, 'system');
  if (configuration.needs_restart.length > 0) add(say.restart(configuration.needs_restart.length), 'system');
  for (const { certificate, expires_at: ends } of certificates) {
    if (!isEndingSoon(ends)) continue;
    needs.push(
      <>
        {say.certificate} <code>{certificate}</code> {say.ends(distance(Date.parse(ends), now.value))}
      </>,
    );
  }
  if (counts !== null && counts.keys_expiring > 0) needs.push(<ExpiringKeys count={counts.keys_expiring} />);
  if (counts !== null && counts.keys_due > 0) add(say.keysDue(counts.keys_due), 'rotation');
  if (counts !== null && counts.credentials_due > 0) add(say.credentialsDue(counts.credentials_due), 'rotation');
  return needs;
}

/** The number of keys that expire soon, and the first of them if it is known. */
function ExpiringKeys({ count }: { count: number }) {
  const { data } = useLoad(() => ask(api.GET('/api/v1/due', { params: { query: { limit: 1 } } })), 60_000);
  const [first] = data.value?.due ?? [];
  if (first === undefined || first.expires_at === null || !first.warnings.includes('expiring'))
    return <a href={linkTo('rotation')}>{say.keysExpire(count)}</a>;
  return (
    <>
      {say.keyOf(first.environment)} <AccountLink id={first.account} tab="keys" />{' '}
      {say.expires(distance(Date.parse(first.expires_at), now.value))}
      {count > 1 && say.moreKeys(count - 1)}
    </>
  );
}
