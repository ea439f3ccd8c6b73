import { useSignal } from '@preact/signals';
import { api, ask, type Encryption, type GraceUse as UseOfGrace } from '../api.ts';
import { distance, inFull, now } from '../dates.ts';
import { useLoad } from '../load.ts';
import { mayChange } from '../session.ts';
import { set } from '../route.ts';
import { texts } from '../texts.ts';
import { Badge, When } from '../ui/inline.tsx';
import { ChangeGrace, EndGrace } from './encryption-dialogs.tsx';

const say = texts.encryption;

/** A grace period: what it accepts, when it ends, whether it is still used, and buttons to change its end or to end it. */
export function Grace({ encryption, onDone }: { encryption: Encryption; onDone: () => void }) {
  const asking = useSignal<'extend' | 'end' | undefined>(undefined);
  const { previous } = encryption;
  if (previous === null) return null;
  const accepts = acceptedBy(encryption);
  const dialog = { encryption, onDone, onClose: set(asking, undefined) };
  return (
    <div class="box warn grace">
      <p>
        <strong>{say.grace}.</strong> {say.accepts[accepts]}
      </p>
      <p class="row">
        <time dateTime={previous.until} title={inFull(previous.until)}>
          {say.until(distance(Date.parse(previous.until), now.value))}
        </time>
        <GraceUse lastUsed={previous.last_used_at} />
      </p>
      <UsedBy encryption={encryption} />
      {mayChange() && (
        <div class="row">
          <button class="small" onClick={set(asking, 'extend')}>
            {say.extend}
          </button>
          <button class="small" onClick={set(asking, 'end')}>
            {say.end}
          </button>
        </div>
      )}
      {asking.value === 'extend' && <ChangeGrace {...dialog} />}
      {asking.value === 'end' && <EndGrace {...dialog} accepts={accepts} isUsed={isStillUsed(previous.last_used_at)} />}
    </div>
  );
}

/** What a grace period accepts: envelopes if encryption is off, otherwise plaintext or the previous credentials. */
export function acceptedBy({ enabled, previous }: Encryption): keyof typeof say.accepts {
  return enabled ? (previous?.accepts ?? 'credentials') : 'envelopes';
}

/** The API keys for which this sidecar has applied the grace period. */
function UsedBy({ encryption: { account, environment, enabled, created_at: since } }: { encryption: Encryption }) {
  const { data } = useLoad(() => ask(api.GET('/api/v1/activity', { params: { query: { account } } })), 2_000);
  if (data.value === undefined) return null;
  // If encryption is on, the grace period began when the current key and IV were created.
  const isOfThisGrace = (use: UseOfGrace): boolean =>
    use.environment === environment && !(enabled && since !== null && Date.parse(use.last_used_at) < Date.parse(since));
  const uses = data.value.grace_uses.filter(isOfThisGrace);
  return (
    <div class="hint">
      {uses.length === 0 ? say.usedByNone : enabled ? say.usedBy : say.usedByOrBefore}
      <ul>
        {uses.map(({ key, last_used_at: lastUsed }) => (
          <li key={key}>
            <code>{key}</code> <When date={lastUsed} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** How long a grace period counts as still used after its last use, in milliseconds. */
const recently = 300_000;

function isStillUsed(lastUsed: string | null | undefined): boolean {
  return typeof lastUsed === 'string' && now.value - Date.parse(lastUsed) < recently;
}

/** Shows whether a grace period is still used. */
export function GraceUse({ lastUsed }: { lastUsed: string | null | undefined }) {
  if (lastUsed === undefined) return <span class="hint">{say.useNotRecorded}</span>;
  if (lastUsed === null) return <Badge tone="good">{say.notUsed}</Badge>;
  const isUsed = isStillUsed(lastUsed);
  return (
    <Badge tone={isUsed ? 'warn' : 'good'} title={inFull(lastUsed)}>
      {(isUsed ? say.stillUsed : say.usedLast)(distance(Date.parse(lastUsed), now.value))}
    </Badge>
  );
}
