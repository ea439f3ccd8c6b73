import type { Account, Encryption } from '../api.ts';
import { distance, inFull, now } from '../dates.ts';
import type { Loaded } from '../load.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';

const say = texts.encryption;

/** What is accepted besides, until when, and whether it is still used. */
export function Grace({ encryption }: { encryption: Encryption; loaded: Loaded<Account> }) {
  const { enabled, previous } = encryption;
  if (previous === null) return null;
  const accepts = enabled ? previous.accepts : 'envelopes';
  return (
    <div class="box warn grace">
      <p>
        <strong>{say.grace}.</strong> {say.accepts[accepts]}
      </p>
      <p class="row">
        <time dateTime={previous.until} title={inFull(previous.until)}>
          {say.until(distance(Date.parse(previous.until), now.value))}
        </time>
        <Use lastUsed={previous.last_used_at} />
      </p>
    </div>
  );
}

/** How long after its last use something counts as still used, in milliseconds. */
const stillUsed = 300_000;

function Use({ lastUsed }: { lastUsed: string | null | undefined }) {
  if (lastUsed === undefined) return null;
  if (lastUsed === null) return <Badge tone="good">{say.notUsed}</Badge>;
  const at = Date.parse(lastUsed);
  const isStillUsed = now.value - at < stillUsed;
  return (
    <Badge tone={isStillUsed ? 'warn' : 'good'} title={inFull(lastUsed)}>
      {(isStillUsed ? say.stillUsed : say.usedLast)(distance(at, now.value))}
    </Badge>
  );
}
