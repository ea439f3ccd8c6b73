import { api, ask, type ApiKey } from '../api.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Pages } from '../ui/pages.tsx';
import { Section, Table } from '../ui/states.tsx';
import { When } from '../ui/when.tsx';
import { GraceUse } from './grace.tsx';

const say = texts.rotation;

/** Keys that are due for rotation, and running graces. */
export function Rotation() {
  return (
    <>
      <h1>{texts.pages.rotation}</h1>
      <DueKeys />
      <Graces every={5_000} />
    </>
  );
}

function DueKeys() {
  const head = [
    say.account,
    texts.keys.id,
    texts.keys.environment,
    texts.keys.kind,
    say.why,
    texts.keys.age,
    texts.keys.expires,
  ];
  return (
    <Section title={say.keys} intro={say.keysIntro}>
      <Pages
        ask={(after) => ask(api.GET('/api/v1/keys/due', { params: { query: { limit: 50, ...after } } }))}
        every={30_000}
      >
        {({ keys }) => (
          <Table label={say.keys} head={head} rows={keys} empty={say.noKeys}>
            {(key) => <KeyRow key={`${key.account} ${key.id}`} apiKey={key} />}
          </Table>
        )}
      </Pages>
    </Section>
  );
}

function KeyRow({ apiKey }: { apiKey: ApiKey }) {
  return (
    <tr>
      <th scope="row">
        <a href={linkTo('accounts', apiKey.account, 'keys')}>{apiKey.account}</a>
      </th>
      <td>
        <code>{apiKey.id}</code>
      </td>
      <td>{texts.environments[apiKey.environment]}</td>
      <td>{texts.kinds[apiKey.kind]}</td>
      <td>
        <Warnings apiKey={apiKey} />
      </td>
      <td>
        <When date={apiKey.created_at} />
      </td>
      <td>
        <When date={apiKey.expires_at} />
      </td>
    </tr>
  );
}

/** The reasons to rotate a key. */
export function Warnings({ apiKey }: { apiKey: ApiKey }) {
  return (
    <span class="row tight">
      {apiKey.warnings.map((warning) => (
        <Badge key={warning} tone="warn" title={texts.keys.warningHints[warning]}>
          {texts.keys.warnings[warning]}
        </Badge>
      ))}
    </span>
  );
}

/**
 * The running graces, and whether they are still used.
 *
 * @param props.every how often it is asked for, in milliseconds
 */
export function Graces({ every }: { every: number }) {
  const head = [say.account, texts.keys.environment, say.accepts, say.ends, say.use];
  return (
    <Section title={say.graces} intro={say.gracesIntro}>
      <Pages
        ask={(after) => ask(api.GET('/api/v1/graces', { params: { query: { limit: 50, ...after } } }))}
        every={every}
      >
        {({ graces }) => (
          <Table label={say.graces} head={head} rows={graces} empty={say.noGraces}>
            {({ account, environment, enabled, previous }) => (
              <tr key={`${account} ${environment}`}>
                <th scope="row">
                  <a href={linkTo('accounts', account, 'encryption')}>{account}</a>
                </th>
                <td>{texts.environments[environment]}</td>
                <td>{texts.encryption.accepts[enabled ? (previous?.accepts ?? 'credentials') : 'envelopes']}</td>
                <td>
                  <When date={previous?.until} />
                </td>
                <td>
                  <GraceUse lastUsed={previous?.last_used_at} />
                </td>
              </tr>
            )}
          </Table>
        )}
      </Pages>
    </Section>
  );
}
