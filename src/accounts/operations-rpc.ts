import type { ChangeRequest, Operations } from './operations.ts';

/** The operations whose arguments and results are plain data, so that another thread can carry them out. */
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

/** An operation by its name, with its arguments, so that it can be sent to another thread. */
export interface OperationCall {
  readonly name: RemoteName;
  readonly arguments: readonly unknown[];
}

/** Whether an argument of a call says who asks for a change. */
export function isRequest(argument: unknown): argument is ChangeRequest {
  return typeof argument === 'object' && argument !== null && 'actor' in argument;
}

/** The request for a change; undefined if the operation only reads, even if it looks for what an actor has done. */
export function findRequest({ name, arguments: values }: OperationCall): ChangeRequest | undefined {
  return (changes as readonly string[]).includes(name) ? values.find(isRequest) : undefined;
}

/** The operations, each as a call of `send`. */
export function createOperationsClient(send: (call: OperationCall) => Promise<unknown>): RemoteOperations {
  const methods = remoteNames.map((name) => [name, (...args: readonly unknown[]) => send({ name, arguments: args })]);
  // Each method has the type of the operation with its name, as `handleCall` ensures.
  return Object.fromEntries(methods) as RemoteOperations;
}

/** Carries out a call of the client. */
export function handleCall(operations: RemoteOperations, call: OperationCall): Promise<unknown> {
  const operation = operations[call.name] as (...args: readonly unknown[]) => Promise<unknown>;
  return operation.apply(operations, [...call.arguments]);
}
