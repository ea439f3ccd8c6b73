import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Vectors } from '../generate-vectors.ts';
import type { Driver, Outcome } from './driver.ts';

export interface Result {
  readonly tried: number;
  /** One line for each vector with an unexpected outcome. */
  readonly failures: readonly string[];
}

const vectors = JSON.parse(readFileSync(join(import.meta.dirname, '../vectors.json'), 'utf8')) as Vectors;

/**
 * Tries the vectors on a program.
 *
 * @param isKit whether to also try what only kits have: fingerprints, codes, bad credentials, and what they print
 */
export async function tryVectors(driver: Driver, { isKit }: { readonly isKit: boolean }): Promise<Result> {
  const failures: string[] = [];
  let tried = 0;
  const check = (name: string, right: boolean, outcome: Outcome): void => {
    tried += 1;
    if (!right) failures.push(`${name}: ${JSON.stringify(outcome).slice(0, 200)}`);
  };
  /** Whether the outcome is an error with this code that shows no secret. */
  const isNamed = ({ error }: Outcome, code: string, secrets: readonly string[]): boolean =>
    error?.['type'] === 'envelope' && error['code'] === code && !showsAny(error, secrets);

  for (const { name, plaintext, data, fingerprint, ...credentials } of vectors.valid) {
    const sealed = await driver.ask({ op: 'seal', ...credentials, plaintext });
    check(`seal: ${name}`, sealed['data'] === data, sealed);
    const opened = await driver.ask({ op: 'open', ...credentials, data });
    check(`open: ${name}`, opened['plaintext'] === plaintext, opened);
    const upper =
      credentials.encoding === 'hex'
        ? await driver.ask({ op: 'open', ...credentials, data: data.toUpperCase() })
        : opened;
    check(`open in capitals: ${name}`, upper['plaintext'] === plaintext, upper);
    if (!isKit) continue;
    const print = await driver.ask({ op: 'fingerprint', ...credentials });
    check(`fingerprint: ${name}`, print['fingerprint'] === fingerprint, print);
    const shown = await driver.ask({ op: 'show', ...credentials });
    const shows =
      Array.isArray(shown['shown']) && shown['shown'].length > 0 && showsAny(shown, [credentials.key, credentials.iv]);
    check(`shows no secret: ${name}`, shown['error'] === undefined && !shows, shown);
  }

  for (const { name, data, code, ...credentials } of vectors.invalid) {
    const opened = await driver.ask({ op: 'open', ...credentials, data });
    const right = isKit ? isNamed(opened, code, [credentials.key, credentials.iv]) : opened.error !== undefined;
    check(`refuse: ${name}`, right && !('plaintext' in opened), opened);
    if (!isKit) continue;
    const lenient = await driver.ask({ op: 'compat', ...credentials, data });
    check(`compat: ${name}`, lenient['plaintext'] === null && lenient['data'] === '', lenient);
  }

  if (!isKit) return { tried, failures };
  for (const { name, code, ...credentials } of vectors.bad_credentials) {
    const sealed = await driver.ask({ op: 'seal', ...credentials, plaintext: '{}' });
    check(`refuse ${name}`, isNamed(sealed, code, [credentials.key, credentials.iv]) && !('data' in sealed), sealed);
  }
  const selftest = await driver.ask({ op: 'selftest' });
  check('selftest', selftest['passed'] === 8, selftest);
  return { tried, failures };
}

/** Whether an outcome contains a secret: as text, in hex, in base64, or as a list of bytes. */
function showsAny(outcome: object, secrets: readonly string[]): boolean {
  const text = JSON.stringify(outcome).toLowerCase();
  return secrets
    .filter((secret) => secret.trim().length > 8)
    .some((secret) => {
      const bytes = Buffer.from(secret);
      const list = [...bytes.subarray(0, 8)];
      const spellings = [
        JSON.stringify(secret).slice(1, 13),
        bytes.toString('hex').slice(0, 16),
        list.map((byte) => byte.toString(16).padStart(2, '0')).join(' '),
        bytes.toString('base64').slice(0, 12),
        list.join(','),
        list.join(', '),
        list.join(' '),
      ];
      return spellings.some((spelling) => text.includes(spelling.toLowerCase()));
    });
}
