import type { Operations } from './operations.ts';

/** The operations whose arguments and results are plain data, so that another thread can carry them out. */
const plainOperations = [
  'add',
  'rename',
  'setActive',
  'remove',
  'issueKey',
  'rotateKey',
  'revokeKey',
  'enableEncryption',
  'disableEncryption',
  'changeGrace',
  'stored',
  'show',
  'keysPage',
  'showKey',
  'showEncryption',
  'findKey',
  'listPage',
  'duePage',
  'gracesPage',
  'eventsPage',
  'record',
] as const satisfies readonly (keyof Operations)[];

type PlainOperation = (typeof plainOperations)[number];

/** The operations that a running sidecar offers to operators. */
export type PlainOperations = Pick<Operations, PlainOperation>;

/** An operation by its name, with its arguments, so that it can be sent to another thread. */
export interface OperationCall {
  readonly name: PlainOperation;
  readonly arguments: readonly unknown[];
}

/** The operations, each as a call of `carryOut`. */
export function remoteOperations(carryOut: (call: OperationCall) => Promise<unknown>): PlainOperations {
  const methods = plainOperations.map((name) => [
    name,
    (...args: readonly unknown[]) => carryOut({ name, arguments: args }),
  ]);
  // Each method has the type of the operation with its name, as `dispatch` ensures.
  return Object.fromEntries(methods) as PlainOperations;
}

/** Carries out a call of `remoteOperations`. */
export function dispatch(operations: PlainOperations, call: OperationCall): Promise<unknown> {
  const operation = operations[call.name] as (...args: readonly unknown[]) => Promise<unknown>;
  return operation.apply(operations, [...call.arguments]);
}
