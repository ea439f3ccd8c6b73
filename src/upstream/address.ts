import { isIP } from 'node:net';
import type { UpstreamTarget } from '../config/config.ts';

/** Where an upstream is, and how it is known there, in the form that Node's clients take. */
export interface UpstreamAddress extends UpstreamTarget {
  readonly protocol: 'http:' | 'https:';
  /** An address of IPv6 without its brackets. */
  readonly host: string;
  readonly port: number;
  /** Host, and the port where it is not the protocol's own: for `Host`. */
  readonly authority: string;
  /** The name its certificate must have; empty where the host is an address, which is no name (RFC 6066 §3). */
  readonly servername: string;
}

export function addressOf(target: UpstreamTarget): UpstreamAddress {
  const { protocol, hostname, port, host: authority } = new URL(target.origin);
  const host = hostname.replace(/^\[|\]$/g, '');
  const isTls = protocol === 'https:';
  return {
    ...target,
    protocol: isTls ? 'https:' : 'http:',
    host,
    port: Number(port || (isTls ? 443 : 80)),
    authority,
    servername: isIP(host) === 0 ? host : '',
  };
}
