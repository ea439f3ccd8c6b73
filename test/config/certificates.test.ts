import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { listCertificates } from '../../src/config/certificates.ts';
import { createAuthority } from '../support/certificates.ts';
import { startGateway } from '../support/gateway.ts';
import { configOf } from '../support/sidecar.ts';
import { samplesOf } from '../telemetry/samples.ts';

const authority = createAuthority();
const issued = authority.issue('DNS:localhost');
const later = createAuthority(3);

const end = (pem: string): number => Date.parse(new X509Certificate(pem).validTo);
const base = configOf('https://core.internal');

test('every certificate in a configuration is reported with its member', () => {
  const tls = { ...issued, clientCa: authority.cert };
  const operators = { host: '127.0.0.1', port: 0, tokens: [], hosts: [], console: true, tls };
  const environments = base.environments.map((environment) => ({
    ...environment,
    upstream: { ...environment.upstream, ...issued, ca: authority.cert },
  }));
  const found = listCertificates({ ...base, listen: { ...base.listen, tls }, operators, environments });
  expect(Object.fromEntries(found.map(({ certificate, expiresAt }) => [certificate, expiresAt]))).toEqual({
    'listen.tls.cert': end(issued.cert),
    'listen.tls.clientCa': end(authority.cert),
    'operators.tls.cert': end(issued.cert),
    'operators.tls.clientCa': end(authority.cert),
    'environments.test.upstream.cert': end(issued.cert),
    'environments.test.upstream.ca': end(authority.cert),
  });
});

test('a chain expires with the first of its certificates to expire, a bundle of authorities with the last', () => {
  const several = `${later.cert}\n${authority.cert}`;
  const tls = { cert: several, key: issued.key, clientCa: several };
  expect(end(later.cert)).toBeGreaterThan(end(authority.cert));
  expect(listCertificates({ ...base, listen: { ...base.listen, tls } })).toEqual([
    { certificate: 'listen.tls.cert', expiresAt: end(authority.cert) },
    { certificate: 'listen.tls.clientCa', expiresAt: end(later.cert) },
  ]);
});

test('the metric reports the certificates of the running configuration', async () => {
  const tls = { ...issued, clientCa: undefined };
  const { sidecar, upstream } = await startGateway({ listen: { host: '127.0.0.1', port: 0, tls } });
  const series = 'envelope_sidecar_certificate_expiry_timestamp_seconds{certificate="listen.tls.cert"}';
  expect((await samplesOf(sidecar)).values.get(series)).toBe(end(issued.cert) / 1_000);
  sidecar.app.apply(configOf(upstream.origin));
  expect((await samplesOf(sidecar)).values.has(series)).toBe(false);
});
