import type { ChangeRequest, Operations } from './operations.ts';

// These operations can be sent to another thread, because their arguments and results are plain data.
const changes = [
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
  'record',
] as const satisfies readonly (keyof Operations)[];
const queries = [
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
] as const satisfies readonly (keyof Operations)[];
const remoteNames = [...changes, ...queries];

type RemoteName = (typeof remoteNames)[number];

/** The operations that a running sidecar offers to operators. */
export type RemoteOperations = Pick<Operations, RemoteName>;

/** A call to an operation, which can be sent to another thread. */
export interface OperationCall {
  readonly name: RemoteName;
  readonly arguments: readonly unknown[];
}

/** Whether an argument of a call names an actor, as the request for a change does. */
export function isRequest(argument: unknown): argument is ChangeRequest {
  return typeof argument === 'object' && argument !== null && 'actor' in argument;
}

/** The request for a change; undefined if the operation only reads. A filter for events also names an actor, but is not a request. */
export function findRequest({ name, arguments: values }: OperationCall): ChangeRequest | undefined {
  return (changes as readonly string[]).includes(name) ? values.find(isRequest) : undefined;
}

/** Creates operations that pass each call to `send`. */
export function createOperationsClient(send: (call: OperationCall) => Promise<unknown>): RemoteOperations {
  const methods = remoteNames.map((name) => [name, (...args: readonly unknown[]) => send({ name, arguments: args })]);
  // The cast is safe, because `handleCall` calls the operation of the same name.
  return Object.fromEntries(methods) as RemoteOperations;
}

/** Carries out a call that the client has sent. */
export function handleCall(operations: RemoteOperations, call: OperationCall): Promise<unknown> {
  const operation = operations[call.name] as (...args: readonly unknown[]) => Promise<unknown>;
  return operation.apply(operations, [...call.arguments]);
}
