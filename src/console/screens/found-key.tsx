import { api, ask, type Account, type ShownKey } from '../api.ts';
import { distance, now } from '../dates.ts';
import { useLoad } from '../load.ts';
import { formatActor } from '../sentences.tsx';
import { texts } from '../texts.ts';
import { Show } from '../ui/states.tsx';

const say = texts.keys.found;

/** Shows the key that was searched for: its state, who revoked it, and whether clients still try to use it. */
export function FoundKey({ account, id }: { account: Account; id: string }) {
  const params = { path: { account: account.id, key: id } };
  const loaded = useLoad(() => ask(api.GET('/api/v1/accounts/{account}/keys/{key}', { params })), 5_000);
  return (
    <Show loaded={loaded}>
      {(key) => (
        <div class={`box ${key.state === 'valid' && account.active ? 'good' : 'bad'}`} role="status">
          <p>
            {key.name !== null && <strong>{key.name} </strong>}
            <code>{key.id}</code> {key.hint !== null && <code>{key.hint}</code>}
          </p>
          <p>{describeState(key)}</p>
          {!account.active && <p>{say.accountInactive}</p>}
        </div>
      )}
    </Show>
  );
}

function describeState(key: ShownKey): string {
  const ago = (date: string): string => distance(Date.parse(date), now.value, 'seconds');
  const { attempts, last_attempt_at: last } = key.use;
  const since = attempts === 0 ? '' : say.attempts(attempts) + (last === null ? '' : say.lastAttempt(ago(last)));
  if (key.revoked_at !== null) {
    const by = key.revoked_by === null ? '' : say.by(formatActor(key.revoked_by));
    return `${say.revoked(ago(key.revoked_at))}${by}${since}.`;
  }
  if (key.state === 'expired' && key.expires_at !== null) return `${say.expired(ago(key.expires_at))}${since}.`;
  return say.valid(texts.environments[key.environment]);
}
