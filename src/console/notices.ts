import { effect, signal } from '@preact/signals';
import { place } from './route.ts';
import { session } from './session.ts';
import { texts } from './texts.ts';

interface Notice {
  readonly tone: 'good' | 'warn';
  readonly text: string;
}

/** The message about the last change, in a live region. */
export const notice = signal<Notice | undefined>(undefined);

// A message disappears when the operator leaves its page or the session ends.
effect(() => {
  void [place.value, session.value];
  notice.value = undefined;
});

/** Announces a change, and whether this sidecar has applied it. */
export function announceChange(text: string, { in_force: inForce }: { readonly in_force: boolean }): void {
  const announced: Notice = inForce
    ? { tone: 'good', text: `${text} ${texts.inForce}` }
    : { tone: 'warn', text: `${text} ${texts.notInForce}` };
  notice.value = announced;
  // A message that needs no action disappears after a while.
  setTimeout(() => {
    if (notice.value === announced && announced.tone === 'good') notice.value = undefined;
  }, 10_000);
}
