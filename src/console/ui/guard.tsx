import type { Use } from '../api.ts';
import type { Cell } from '../route.ts';
import { texts } from '../texts.ts';
import { TextField } from './fields.tsx';
import { traffic } from './use-line.tsx';

const say = texts.guard;

/** Longer ids are confirmed by their end: nobody types twenty characters on a phone. */
const longestTyped = 12;
const typedEnd = 4;

/** The requests that a change would concern. */
export type TrafficOfUse = Pick<Use, 'last_hour' | 'last_at'>;

interface GuardProps {
  readonly use: TrafficOfUse;
  /** The id to type; undefined: none, because little can go wrong. */
  readonly id: string | undefined;
  readonly typed: Cell<string>;
}

/** What a change would affect, and an id to type if much can go wrong. */
export function Guard({ use, id, typed }: GuardProps) {
  return (
    <>
      <p class={`box ${use.last_at === null ? 'quiet' : 'warn'}`}>{say.traffic(traffic(use))}</p>
      {id !== undefined && <TextField label={say.type(chooseWord(id), chooseWord(id) === id)} of={typed} />}
    </>
  );
}

/** Whether the change may be made. */
export function isConfirmed({ id, typed }: Pick<GuardProps, 'id' | 'typed'>): boolean {
  return id === undefined || typed.value.trim() === chooseWord(id);
}

function chooseWord(id: string): string {
  return id.length <= longestTyped ? id : id.slice(-typedEnd);
}
