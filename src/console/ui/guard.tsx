import type { Use } from '../api.ts';
import type { Cell } from '../route.ts';
import { texts } from '../texts.ts';
import { TextField } from './fields.tsx';
import { traffic } from './use-line.tsx';

const say = texts.guard;

/**
 * Maximum length of an id that is typed in full. For longer ids, typing the last characters is enough, because nobody types twenty
 * characters on a phone.
 */
const longestTyped = 12;
const typedEnd = 4;

/** The requests that a change would affect. */
export type TrafficOfUse = Pick<Use, 'last_hour' | 'last_at'>;

interface GuardProps {
  readonly use: TrafficOfUse;
  /** The id to type; undefined if nothing needs to be typed, because little can go wrong. */
  readonly id: string | undefined;
  readonly typed: Cell<string>;
}

/** Shows what a change would affect and, if a lot can go wrong, asks the operator to type an id. */
export function Guard({ use, id, typed }: GuardProps) {
  return (
    <>
      <p class={`box ${use.last_at === null ? 'quiet' : 'warn'}`}>{say.traffic(traffic(use))}</p>
      {id !== undefined && <TextField label={say.type(chooseWord(id), chooseWord(id) === id)} of={typed} />}
    </>
  );
}

/** Whether the operator has confirmed the change, or no confirmation is needed. */
export function isConfirmed({ id, typed }: Pick<GuardProps, 'id' | 'typed'>): boolean {
  return id === undefined || typed.value.trim() === chooseWord(id);
}

function chooseWord(id: string): string {
  return id.length <= longestTyped ? id : id.slice(-typedEnd);
}
