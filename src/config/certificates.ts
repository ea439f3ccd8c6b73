import { X509Certificate } from 'node:crypto';
import type { Settings } from './config.ts';
import type { EpochMs } from '../times.ts';

/** A certificate in the configuration, identified by the member that names it. */
interface ConfiguredCertificate {
  /** `listen.tls.cert`, `environments.live.upstream.ca`, … */
  readonly certificate: string;
  readonly expiresAt: EpochMs;
}

/**
 * When the certificates of a configuration expire. A chain expires when the first of its certificates expires; a bundle of CAs expires when
 * the last one does.
 */
export function listCertificates({ listen, operators, environments }: Settings): ConfiguredCertificate[] {
  return [
    ...expiry('listen.tls.cert', listen.tls?.cert, Math.min),
    ...expiry('listen.tls.clientCa', listen.tls?.clientCa, Math.max),
    ...expiry('operators.tls.cert', operators?.tls?.cert, Math.min),
    ...expiry('operators.tls.clientCa', operators?.tls?.clientCa, Math.max),
    ...environments.flatMap(({ name, upstream }) => [
      ...expiry(`environments.${name}.upstream.cert`, upstream.cert, Math.min),
      ...expiry(`environments.${name}.upstream.ca`, upstream.ca, Math.max),
    ]),
  ];
}

/** @param pem one certificate or several */
function expiry(
  certificate: string,
  pem: string | undefined,
  which: (...times: number[]) => number,
): ConfiguredCertificate[] {
  const blocks = pem?.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) return [];
  const times = blocks.map((block) => new X509Certificate(block).validToDate.getTime());
  return [{ certificate, expiresAt: which(...times) }];
}
