import { hash } from 'node:crypto';
import type { PeerAccount } from './peers/settings.ts';

/** An account in the benchmark, with its only API key, which is for the test environment. */
export interface Merchant {
  readonly id: string;
  readonly apiKey: string;
  /** Absent if the account does not encrypt. */
  readonly encryption?: { readonly key: string; readonly iv: string };
}

/** An account that encrypts. */
type EncryptingMerchant = Merchant & Required<Pick<Merchant, 'encryption'>>;

/** A merchant whose data is derived from its number, so that the data is always the same. */
function merchantOf(i: number, kind: 'encrypting' | 'plain'): EncryptingMerchant {
  const id = `${kind}-${i}`;
  const letters = hash('sha256', id);
  const encryption = { key: letters.slice(0, 32), iv: letters.slice(32, 48) };
  return { id, apiKey: `sk_test_${letters.slice(16, 48)}`, encryption };
}

/** `count` merchants. */
export function merchantsOf(count: number, kind: 'encrypting' | 'plain'): Merchant[] {
  return Array.from({ length: count }, (_, i) => {
    const { encryption, ...plain } = merchantOf(i, kind);
    return kind === 'plain' ? plain : { ...plain, encryption };
  });
}

/** An accounts file for the sidecar that contains these merchants, with hashed API keys. */
export function accountsYaml(merchants: readonly Merchant[]): string {
  const lines = ['accounts:'];
  for (const { id, apiKey, encryption } of merchants) {
    lines.push(`  - id: ${id}`, `    name: Merchant ${id}`, '    keys:');
    lines.push(
      `      - { id: ${id}-key, prefix: sk_test_, sha256: "${hash('sha256', apiKey)}", createdAt: 2026-11-01 }`,
    );
    if (encryption === undefined) continue;
    lines.push('    encryption:');
    lines.push(
      `      test: { enabled: true, key: "${encryption.key}", iv: "${encryption.iv}", createdAt: 2026-11-01 }`,
    );
  }
  return `${lines.join('\n')}\n`;
}

/** These merchants in the form that the peers read. */
export function peerAccounts(merchants: readonly Merchant[]): Record<string, PeerAccount> {
  return Object.fromEntries(
    merchants.map(({ id, apiKey, encryption }) => [hash('sha256', apiKey), { account: id, ...encryption }]),
  );
}
