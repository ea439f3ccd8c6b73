import { effect, signal } from '@preact/signals';
import { place } from './route.ts';
import { session } from './session.ts';
import { texts } from './texts.ts';

export interface Notice {
  readonly tone: 'good' | 'warn';
  readonly text: string;
}

/** What the page says of the last change, in a live region. */
export const notice = signal<Notice | undefined>(undefined);

// It belongs to the page on which it is told, and to the session.
effect(() => {
  void [place.value, session.value];
  notice.value = undefined;
});

/** Tells that a change was made, and whether this sidecar works by it already. */
export function tellChanged(text: string, { in_force: inForce }: { readonly in_force: boolean }): void {
  const told: Notice = inForce
    ? { tone: 'good', text: `${text} ${texts.inForce}` }
    : { tone: 'warn', text: `${text} ${texts.notInForce}` };
  notice.value = told;
  // What needs no action goes by itself.
  setTimeout(() => {
    if (notice.value === told && told.tone === 'good') notice.value = undefined;
  }, 10_000);
}
