import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

/** A key and an IV as an operator gives them to a merchant. */
export interface Pair {
  readonly key: string;
  readonly iv: string;
  readonly key_text?: 'text' | 'base64';
  readonly encoding?: 'hex' | 'base64';
}

export const accounts = {
  acme: { apiKey: 'sk_test_acmeacmeacmeacmeacmeacme', key: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a', iv: 'Zx9Qw3Er7Ty1Ui5O' },
  /** This account has an IV string of 24 characters. */
  initech: {
    apiKey: 'sk_test_initechinitechinitech',
    key: 'p4Wn6bVc2KsH8dTf0QaZ5xJm3GyRu7Le',
    iv: 'Bn4Mx8Cz1Vl6Kj3HaBcDeQ==',
  },
  umbrella: {
    apiKey: 'sk_test_umbrellaumbrellaumbrella',
    key: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=',
    iv: '8PHy8/T19vf4+fr7/P3+/w==',
    key_text: 'base64',
    encoding: 'base64',
  },
} as const satisfies Record<string, Pair & { apiKey: string }>;

/** The pair in the merchant's code, which is the one that the docs show. */
const own = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' } as const;
const other = { key: 'b7Nm2Qw9Er4Ty6Ui1Op8As3Df5Gh0JkL', iv: 'Mn5Bv0Cx7Zl2Kj9H' } as const;
const [past, future] = ['2026-01-02', '2099-01-01'] as const;

/** A merchant's account in each state of a change to new credentials, for code that has one pair. */
export const states = {
  'no-grace': own,
  'grace-with-the-old': { ...other, previous: { ...own, until: future } },
  'grace-with-the-new': { ...own, previous: { ...other, until: future } },
  'after-the-grace': { ...own, previous: { ...other, until: past } },
  'grace-with-plaintext': { ...own, previous: { until: future } },
} as const;
export type State = keyof typeof states;

/** The environment variables of the merchant's code in a state. */
export function environmentIn(state: State): Readonly<Record<'API_KEY' | 'KEY' | 'IV', string>> {
  return { API_KEY: `sk_test_merchant-with-${state}`, KEY: own.key, IV: own.iv };
}

/** One of acme's public keys. */
export const publicKey = 'pk_test_acmeacmeacmeacmeacmeacme';

/** SIDECAR_PROGRAM may name a built sidecar, which starts sooner. */
const main = process.env['SIDECAR_PROGRAM'] ?? join(import.meta.dirname, '../../src/main.ts');
const run = promisify(execFile);

/** A sidecar in a separate process, with the accounts above in a file. */
export class Sidecar {
  readonly port: number;
  readonly #process: ChildProcess;
  readonly #folder: string;

  private constructor(port: number, process: ChildProcess, folder: string) {
    this.port = port;
    this.#process = process;
    this.#folder = folder;
  }

  static async start(upstreamPort: number): Promise<Sidecar> {
    const folder = mkdtempSync(join(tmpdir(), 'kits-'));
    const config = {
      listen: { host: '127.0.0.1', port: 0 },
      admin: { host: '127.0.0.1', port: 0 },
      environments: { test: { upstream: `http://127.0.0.1:${upstreamPort}` } },
      accounts: { file: 'accounts.yaml' },
      routes: [{ path: '/api/s2s/*', envelope: true }],
    };
    const rows = Object.entries(accounts).map(([id, { apiKey, ...pair }]) => {
      const { key, iv, key_text: format = 'text', encoding = 'hex' }: Pair = pair;
      const keys: object[] = [{ id: `${id}-1`, key: apiKey, createdAt: '2026-01-01' }];
      if (id === 'acme') keys.push({ id: 'acme-public', key: publicKey, createdAt: '2026-01-01' });
      return { id, name: id, keys, encryption: { test: { enabled: true, key, iv, format, encoding } } };
    });
    const inStates = Object.entries(states).map(([id, credentials]) => {
      const keys = [{ id: `${id}-1`, key: environmentIn(id as State).API_KEY, createdAt: '2026-01-01' }];
      return { id, name: id, keys, encryption: { test: { enabled: true, ...credentials } } };
    });
    // JSON is also valid YAML.
    writeFileSync(join(folder, 'sidecar.yaml'), JSON.stringify(config));
    writeFileSync(join(folder, 'accounts.yaml'), JSON.stringify({ accounts: [...rows, ...inStates] }));
    const child = spawn(process.execPath, [main, 'serve', '--config', join(folder, 'sidecar.yaml')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const port = await new Promise<number>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the sidecar ended with exit code ${code}`)));
      createInterface({ input: child.stdout }).on('line', (line) => {
        const entry = JSON.parse(line) as { msg?: string; listener?: string; port?: number };
        if (entry.msg === 'listening' && entry.listener === 'merchants') resolve(entry.port ?? 0);
      });
    });
    return new Sidecar(port, child, folder);
  }

  /** Whether the sidecar's refusals say if the core has seen the request, and requests can name their sender's credentials. */
  async namesForwarded(): Promise<boolean> {
    const response = await fetch(`http://127.0.0.1:${this.port}/api/s2s/transactions`);
    return 'forwarded' in ((await response.json()) as object);
  }

  /** Gives acme new credentials. The old ones stay valid until `endGrace`. */
  async rotate(): Promise<Pair> {
    const shown = await this.#command('enable', '--replace', '--grace', '1h', '--json');
    const { key, iv } = JSON.parse(shown) as Pair;
    return { key, iv };
  }

  async endGrace(): Promise<void> {
    await this.#command('grace', '--end');
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => void this.#process.once('exit', resolve));
    this.#process.kill('SIGKILL');
    await ended;
    rmSync(this.#folder, { recursive: true });
  }

  async #command(name: string, ...more: readonly string[]): Promise<string> {
    const where = ['acme', '--environment', 'test', '--config', join(this.#folder, 'sidecar.yaml')];
    const { stdout } = await run(process.execPath, [main, 'encryption', name, ...where, ...more]);
    return stdout;
  }
}
