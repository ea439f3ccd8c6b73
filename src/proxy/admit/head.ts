import type { BodyFraming } from '../../http1/parse/grammar.ts';
import type { RequestHead as HttpHead } from '../../http1/parse/request-reader.ts';
import { joined, nominatedBy, roleInRequest, without } from './fields.ts';
import { readPath } from './target.ts';

/** The client's address and origin as reported by earlier proxies. */
interface ForwardedFields {
  for: string | undefined;
  proto: string | undefined;
  host: string | undefined;
  /** Flat list of the other forwarding headers: `Forwarded`, `X-Real-IP`, and any `X-Forwarded-*` that the sidecar does not set itself. */
  others: string[];
}

/** A request head without ambiguities, its fields picked out in one pass. */
export class RequestHead {
  readonly method: string;
  /** Path and query, as received. */
  readonly target: string;
  readonly path: string;
  readonly framing: BodyFraming;
  /** As received, including the port; empty only on HTTP/1.0. */
  host = '';
  authorization: string | undefined;
  /** The client's own request id; empty if it is not acceptable. */
  requestId: string | undefined;
  contentEncoding: string | undefined;
  expectation: string | undefined;
  /** All `Connection` fields, joined by commas. */
  connection = '';
  /** The protocol that the client asks to switch to; never forwarded. */
  upgrade: string | undefined;
  origin: string | undefined;
  requestedMethod: string | undefined;
  requestedCredentials: string | undefined;
  traceparent: string | undefined;
  readonly forwarded: ForwardedFields = { for: undefined, proto: undefined, host: undefined, others: [] };
  /** Flat list of the end-to-end fields that do not depend on the body. */
  fields: string[] = [];
  /** Flat list of the end-to-end fields that are forwarded only with plain traffic. In other requests, they describe the envelope. */
  plainFields: string[] = [];

  constructor({ method, target, framing }: HttpHead, path: string) {
    this.method = method;
    this.target = target;
    this.path = path;
    this.framing = framing;
  }

  /** Whether the client waits for a 100 before it sends the body. */
  get expectsContinue(): boolean {
    return this.expectation?.toLowerCase() === '100-continue';
  }
}

interface SingleField {
  readonly member:
    | 'authorization'
    | 'expectation'
    | 'upgrade'
    | 'contentEncoding'
    | 'origin'
    | 'requestedMethod'
    | 'requestedCredentials';
  /** The list in which the field is forwarded; undefined if it is not forwarded. */
  readonly forwarded?: 'fields' | 'plainFields';
}

/** The fields that the sidecar's decisions depend on. Like `Host`, each of them may occur only once. */
export const singleFields: ReadonlyMap<string, SingleField> = new Map<string, SingleField>([
  ['authorization', { member: 'authorization' }],
  ['expect', { member: 'expectation' }],
  ['upgrade', { member: 'upgrade' }],
  ['content-encoding', { member: 'contentEncoding', forwarded: 'plainFields' }],
  ['origin', { member: 'origin', forwarded: 'fields' }],
  ['access-control-request-method', { member: 'requestedMethod', forwarded: 'fields' }],
  ['envelope-credentials', { member: 'requestedCredentials' }],
]);

/**
 * Maximum total length of the `Connection` fields. Anyone may send 16 KiB of them, and reading thousands of names would take a millisecond.
 */
export const maxConnection = 1_024;

/** The form that a client's request id must have to be kept. */
export const requestIdForm = /^[A-Za-z0-9._-]{1,128}$/;
const acceptableHost = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/;

/** Whether a head asks for a WebSocket. */
export function asksForWebSocket({ method, upgrade }: RequestHead): boolean {
  return method === 'GET' && upgrade?.toLowerCase() === 'websocket';
}

/** Sorts the fields of a head. Returns undefined if the head can be read in two ways (RFC 9112 §3.2, §11). */
export function readHead(http: HttpHead): RequestHead | undefined {
  const path = readPath(http.target);
  if (path === undefined) return undefined;
  const head = new RequestHead(http, path);
  const { fields } = http;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (!addField(head, fields[i] as string, fields[i + 1] as string)) return undefined;
  }
  if (http.minor === 0) {
    // RFC 9110 §7.8, §10.1.1: HTTP/1.0 has neither `Expect` nor `Upgrade`.
    head.expectation = undefined;
    head.upgrade = undefined;
  } else if (head.host === '') {
    return undefined;
  }
  // RFC 9110 §7.8: if `Connection` does not nominate `Upgrade`, then `Upgrade` was meant for an earlier recipient.
  if (head.upgrade !== undefined && !/upgrade/i.test(head.connection)) head.upgrade = undefined;
  if (head.connection !== '') dropNominated(head);
  return head;
}

/** @returns false if the field makes the head ambiguous */
function addField(head: RequestHead, name: string, value: string): boolean {
  const { lower, role } = roleInRequest(name);
  if (role === 'read') return readField(head, name, lower, value);
  if (role === undefined) head.fields.push(name, value);
  else if (role === 'plain') head.plainFields.push(name, value);
  else if (role === 'client') addForwarded(head.forwarded, name, lower, value);
  return true;
}

/** Stores a field that the sidecar itself reads. @returns false if the field makes the head ambiguous */
function readField(head: RequestHead, name: string, lower: string, value: string): boolean {
  const single = singleFields.get(lower);
  if (single !== undefined) {
    if (head[single.member] !== undefined) return false;
    head[single.member] = value;
    if (single.forwarded !== undefined) head[single.forwarded].push(name, value);
    return true;
  }
  switch (lower) {
    case 'host':
      if (head.host !== '' || !acceptableHost.test(value)) return false;
      head.host = value;
      break;
    case 'connection':
      head.connection += head.connection === '' ? value : `,${value}`;
      if (head.connection.length > maxConnection) return false;
      break;
    case 'x-request-id':
      // Some proxies add an id of their own to the client's. If there are two ids, neither is used.
      head.requestId = head.requestId === undefined && requestIdForm.test(value) ? value : '';
      break;
    case 'traceparent':
      head.traceparent = value;
      head.fields.push(name, value);
      break;
    // Content-Length and Transfer-Encoding have already been read as the framing.
    default:
  }
  return true;
}

function addForwarded(forwarded: ForwardedFields, name: string, lower: string, value: string): void {
  if (lower === 'x-forwarded-for') forwarded.for = joined(forwarded.for, value);
  else if (lower === 'x-forwarded-proto') forwarded.proto ??= value;
  else if (lower === 'x-forwarded-host') forwarded.host ??= value;
  else forwarded.others.push(name, value);
}

/**
 * Drops the fields that `Connection` nominates. The sidecar adds its own fields later, so no client can remove the fields that identify it.
 */
function dropNominated(head: RequestHead): void {
  const { connection } = head;
  const nominated = connection.toLowerCase();
  if (nominated.includes('origin') || nominated.includes('access-control-request-method')) {
    // `Connection` nominates these fields, so they are not forwarded, and the upstream would see an ordinary OPTIONS. Do not treat the
    // request as a preflight, which may need no key.
    head.origin = undefined;
    head.requestedMethod = undefined;
  }
  // Nor is it forwarded how the body is coded.
  if (nominated.includes('content-encoding')) head.contentEncoding = undefined;
  const names = nominatedBy(connection);
  head.fields = without(names, head.fields);
  head.plainFields = without(names, head.plainFields);
  head.forwarded.others = without(names, head.forwarded.others);
}
