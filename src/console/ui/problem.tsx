import type { Refused } from '../api.ts';
import { texts } from '../texts.ts';

/** Shows why a request failed. */
export function Problem({ refused }: { refused: Refused | undefined }) {
  if (refused === undefined || refused.code === 'unauthorized') return null;
  const text =
    refused.code === 'unreachable' ? texts.unreachableShort : (texts.problems[refused.code] ?? refused.message);
  return (
    <div class="box bad" role="alert">
      <p>{text}</p>
      {refused.requestId !== undefined && <p class="hint">{texts.requestId(refused.requestId)}</p>}
    </div>
  );
}
