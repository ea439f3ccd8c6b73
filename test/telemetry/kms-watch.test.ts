import { Registry } from 'prom-client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { AccountsError } from '../../src/accounts/accounts-error.ts';
import { localKeyring, type KeyringStatus } from '../../src/accounts/keyring.ts';
import { watchKms } from '../../src/telemetry/kms-watch.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { masterKeysMetric } from '../../src/telemetry/sidecar-metrics.ts';

test('the KMS is checked every minute, and each change is logged once, whatever the error', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const registry = new Registry();
  const entries: Record<string, unknown>[] = [];
  const write = (line: string): void => void entries.push(JSON.parse(line) as Record<string, unknown>);
  const well = (keyId: string) => async (): Promise<KeyringStatus> => ({ healthy: true, keyId });
  let status = well('1');
  const keyring = { ...localKeyring, status: async () => status() };
  const wrapped = { key_id: '1', ciphertext: '', annotations: {}, kcv: '', created_at: '' };
  const inForce = { environments: [{ name: 'test' as const }], store: { masterKeys: [{ kcv: '', wrapped }] } };
  const watch = watchKms(registry, createLogger('info', { write }), () => keyring);
  onTestFinished(watch.stop);
  masterKeysMetric(
    registry,
    () => inForce,
    () => watch.status()?.keyId,
  );
  const failing = (error: Error) => async (): Promise<KeyringStatus> => {
    throw error;
  };
  /** Makes the next check have this outcome. Returns what is logged then, and the samples. */
  const next = async (answer: typeof status): Promise<unknown[]> => {
    status = answer;
    await vi.advanceTimersByTimeAsync(60_000);
    const samples = (await registry.metrics()).split('\n').filter((line) => /^[^#]/.test(line));
    return [entries.splice(0).map(({ msg, problem, key_id: id }) => [msg, problem ?? id]), ...samples];
  };
  const healthy = (value: number): string => `envelope_sidecar_kms_healthy ${value}`;
  const key = (state: string): string =>
    `envelope_sidecar_master_keys{environment="test",provider="kms",state="${state}"} 1`;
  const broken = 'the KMS is unavailable: the current configuration does not need it';

  expect(await next(well('1'))).toEqual([[], healthy(1), key('current')]);
  // A bug must not end the process, and its message must not get into the log.
  expect(await next(failing(new TypeError('secret')))).toEqual([[[broken, 'TypeError']], healthy(0), key('current')]);
  expect(await next(failing(new AccountsError('kms_unavailable', 'gone')))).toEqual([[], healthy(0), key('current')]);
  expect(await next(well('1'))).toEqual([[['the KMS is available again', '1']], healthy(1), key('current')]);
  const rotated = 'the KMS now wraps with a different key: run "master-key rewrap"';
  expect(await next(well('2'))).toEqual([[[rotated, '2']], healthy(1), key('rewrap_due')]);
  expect(await next(failing(new AccountsError('kms_refused', 'no')))).toEqual([
    [[broken, 'no']],
    healthy(0),
    key('rewrap_due'),
  ]);
});
