import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Keyring } from '../../src/accounts/keyring.ts';
import { createMasterKey, openedKey, parseMasterKeys } from '../../src/accounts/master-key.ts';
import { formatWrappedKey } from '../../src/accounts/wrapped-key.ts';
import type { CliIo } from '../../src/cli/io.ts';
import { run as runProgram } from '../../src/cli/run.ts';
import { envelopeOf, opened, send } from '../support/client.ts';
import { collect } from '../support/cli.ts';
import { startCommand, startServe, type Serving } from '../support/command.ts';
import { commandsOn, lines, type CommandLine } from '../support/command-line.ts';
import { eventually } from '../support/eventually.ts';
import { Folder, sidecarFile, type Contents } from '../support/folder.ts';
import { startKms, type TestKms } from '../support/kms.ts';
import { describeOnEachStore, type NewStore } from '../support/stores.ts';
import { startUpstream, type TestUpstream } from '../support/upstream.ts';

const path = 'POST /api/s2s/charges';
const clearKey = (): string => randomBytes(32).toString('base64');

interface Merchant {
  readonly key: string;
  readonly keyId: string;
  readonly credentials: { readonly key: string; readonly iv: string };
}

/** A configuration with a KMS, whose master keys are in the file `keys`. */
class Setup {
  readonly kms: TestKms;
  readonly folder: Folder;
  readonly upstream: TestUpstream;
  commands: CommandLine;
  readonly #store: { readonly postgres?: object };
  readonly #settings: object;

  constructor(kms: TestKms, upstream: TestUpstream, store: object, settings: object) {
    this.kms = kms;
    this.upstream = upstream;
    this.#store = store;
    this.#settings = settings;
    this.folder = new Folder({ 'accounts.yaml': 'accounts: []\n', keys: '' });
    this.write({});
    this.commands = commandsOn(this.folder.file('sidecar.yaml'));
  }

  get config(): string {
    return this.folder.file('sidecar.yaml');
  }

  /** Writes the configuration with these additional members. */
  write(more: Contents): void {
    const masterKey = { file: 'keys' };
    const accounts =
      this.#store.postgres === undefined
        ? { ...this.#store, masterKey }
        : { postgres: { ...this.#store.postgres, masterKey } };
    const kms = { socket: this.kms.socket, ...this.#settings };
    this.folder.write({ 'sidecar.yaml': sidecarFile(this.upstream.origin, { accounts, kms, ...more }) });
  }

  /** Wraps a master key. Returns the line for the file of master keys. */
  async wrap(clear: string): Promise<string> {
    const { run } = commandsOn(this.config, { stdin: `${clear}\n` });
    const { code, stdout, stderr } = await run('master-key wrap');
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  }

  /** Creates an account that encrypts in test. */
  async merchant(): Promise<Merchant> {
    const { run, json } = this.commands;
    if (this.#store.postgres !== undefined) await run('accounts migrate');
    await json('accounts add acme --name Acme');
    const credentials = await json<{ key: string; iv: string }>('encryption enable acme --environment test');
    const { key, id } = await json<{ key: string; id: string }>('keys issue acme --environment test --kind secret');
    return { key, keyId: id, credentials };
  }
}

async function setUp(newStore: NewStore, settings: object = {}): Promise<Setup> {
  const setup = new Setup(await startKms(), await startUpstream(), await newStore(), settings);
  setup.folder.write({ keys: await setup.wrap(clearKey()) });
  return setup;
}

const countDecrypts = ({ kms }: Setup): number => kms.calls.filter((call) => call === 'Decrypt').length;

/** Sends an enveloped request, and expects a sealed response. */
async function expectServed(sidecar: { readonly port: number }, { key, credentials }: Merchant): Promise<void> {
  const answer = await send(sidecar, path, { key, body: envelopeOf(credentials, '{"amount":1}') });
  expect(opened(credentials, answer)).toBe('{"ok":true}');
}

const metric = async ({ adminUrl }: Serving, name: string): Promise<string[]> =>
  lines(await (await fetch(`${adminUrl}/metrics`)).text()).filter((line) =>
    line.startsWith(`envelope_sidecar_${name}`),
  );

describeOnEachStore('with a KMS', (newStore) => {
  test('a master key is wrapped, used, replaced, wrapped again and retired', async () => {
    const setup = await setUp(newStore);
    const { kms, folder, commands } = setup;
    const merchant = await setup.merchant();
    const sidecar = await startServe(setup.config);
    await expectServed(sidecar, merchant);
    const [first = ''] = lines((await commands.run('master-key list --usage')).stdout).slice(1);
    expect(first).toMatch(/^both +1 +[0-9a-f]{10} +kms +key-1 +2$/);

    // Change to another master key.
    const old = readKeys(setup);
    const next = (await commands.run('master-key new')).stdout.trim();
    folder.write({ keys: `${next}\n${old}`, next });
    await eventually('both keys are in force', async () => (await metric(sidecar, 'master_keys{')).length === 2);
    expect((await commands.run(`accounts rekey --new-master-key-file ${folder.file('next')}`)).stdout).toMatch(
      /^1 account was wrapped/,
    );
    const usage = lines((await commands.run('master-key list --usage')).stdout).slice(1);
    expect(usage.map((line) => line.split(/ +/).at(-1))).toEqual(['2', '0']);
    folder.write({ keys: next });
    await eventually('one key is in force', async () => (await metric(sidecar, 'master_keys{')).length === 1);

    // Change to another wrapping key.
    kms.rotate();
    const rewrapped = (await commands.run('master-key rewrap')).stdout;
    expect(parseMasterKeys(rewrapped)).toMatchObject([
      { kcv: parseMasterKeys(next)?.[0]?.kcv, wrapped: { key_id: 'key-2' } },
    ]);
    folder.write({ keys: rewrapped });
    await sidecar.untilEntries('configuration reloaded');
    await expectServed(sidecar, merchant);
    expect((await commands.run('check --online')).stdout).toMatch(/^ok +kms .*: wraps with key key-2$/m);
    expect(setup.upstream.seen).toHaveLength(2);
  });

  test('commands call it only if they need a credential', async () => {
    const setup = await setUp(newStore);
    const { keyId } = await setup.merchant();
    setup.kms.stop();
    const { run } = setup.commands;
    for (const line of [
      `keys revoke acme ${keyId}`,
      'accounts list',
      'encryption show acme --environment test',
      'master-key list',
    ]) {
      expect([line, await run(line)]).toMatchObject([line, { code: 0 }]);
    }
    expect(await run('encryption enable acme --environment live')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^encryption enable: Decrypt of the KMS at .* failed: ENOENT \(gRPC 14\) \(kms_unavailable\)\n$/,
      ) as string,
    });
    expect((await run('check')).stdout).toMatch(
      /kms {2}warning: stored credentials were not tested, because only "check --online" calls the KMS\nOK\n$/,
    );
    expect(await run('check --online')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^failed {2}kms {2}Status of the KMS at .* failed: ENOENT/m) as string,
    });
  });

  const whole = { timeout: 120_000 };
  test(
    'that stops, a sidecar keeps running: requests and reloads that leave the keys unchanged do not call it',
    whole,
    async () => {
      const setup = await setUp(newStore);
      const merchant = await setup.merchant();
      const sidecar = await startServe(setup.config);
      await eventually('the KMS has been called', async () => setup.kms.calls.includes('Status'));
      setup.kms.stop();
      const asked = setup.kms.calls.length;
      const body = envelopeOf(merchant.credentials, '{"amount":1}');
      /** Sends ten requests one after another. Returns the status and the `Envelope` header of each response. */
      const lane = async (): Promise<string[]> => {
        const found: string[] = [];
        for (let i = 0; i < 10; i += 1) {
          const { status, headers } = await send(sidecar, path, { key: merchant.key, body });
          found.push(`${status} ${String(headers['envelope'])}`);
        }
        return found;
      };
      const responses: string[] = [];
      for (let i = 1; i <= 5; i += 1) {
        const lanes = Array.from({ length: 20 }, lane);
        sidecar.signal('SIGHUP');
        await sidecar.untilEntries('configuration reloaded', i);
        responses.push(...(await Promise.all(lanes)).flat());
      }
      expect(responses.length).toBe(1_000);
      expect(new Set(responses)).toEqual(new Set(['200 sealed']));
      await expectServed(sidecar, merchant);
      expect(setup.kms.calls).toHaveLength(asked);

      const before = readKeys(setup);
      await setup.kms.start();
      const other = await setup.wrap(clearKey());
      setup.kms.stop();
      setup.folder.write({ keys: `${before}\n${other}` });
      const [problem] = await sidecar.untilEntries('configuration is invalid: the current one is kept');
      expect(problem?.['problem']).toMatch(
        /masterKey {2}Decrypt of the KMS at .* failed: ENOENT \(gRPC 14\) \(kms_unavailable\)$/,
      );
      await expectServed(sidecar, merchant);
      await setup.kms.start();
      sidecar.signal('SIGHUP');
      await sidecar.untilEntries('configuration reloaded', 6);
    },
  );

  test('replaced by a toy that takes 50 ms for each call, a sidecar opens what a command has sealed', async () => {
    const clear = parseMasterKeys(clearKey())?.[0];
    if (clear === undefined) throw new Error('no key');
    const calls: string[] = [];
    const slowly = async <T>(call: string, result: T): Promise<T> => {
      calls.push(call);
      return delay(50, result);
    };
    const toy: Keyring = {
      wrap: (key) =>
        slowly(
          'wrap',
          formatWrappedKey({
            key_id: 'toy',
            ciphertext: 'dG95',
            annotations: {},
            kcv: createMasterKey(key).kcv,
            created_at: '2026-11-01T00:00:00Z',
          }),
        ),
      unwrap: (key) => slowly('unwrap', { ...key, key: openedKey(clear) }),
      status: () => slowly('status', { healthy: true, keyId: 'toy' }),
    };
    const setup = await setUp(newStore);
    setup.folder.write({ keys: await toy.wrap(openedKey(clear)) });
    setup.commands = commandsOn(setup.config, { keyring: () => toy });
    const merchant = await setup.merchant();
    expect(calls).toEqual(['wrap', 'unwrap']);
    const port = await serveInProcess(setup.config, () => toy);
    expect(calls.slice(2)).toEqual(['unwrap', 'status']);
    for (let i = 0; i < 10; i += 1) await expectServed({ port }, merchant);
    expect(calls).toHaveLength(4);
    expect(setup.kms.calls).toEqual(['Encrypt', 'Decrypt']);
  });
});

const newFile: NewStore = async () => ({ file: 'accounts.yaml' });

test('while a reload waits for a KMS that hangs, a key that is revoked in the file stops working', async () => {
  const setup = await setUp(newFile, { timeout: '30s' });
  const merchant = await setup.merchant();
  const other = await setup.wrap(clearKey());
  const sidecar = await startServe(setup.config);
  await expectServed(sidecar, merchant);
  await eventually('the KMS has been called', async () => setup.kms.calls.includes('Status'));
  setup.kms.hangs = true;
  setup.folder.write({ keys: `${readKeys(setup)}\n${other}` });
  const isAsked = (): number => countDecrypts(setup);
  const asked = isAsked();
  await eventually('the reload calls the KMS', async () => isAsked() > asked);
  await setup.commands.run(`keys revoke acme ${merchant.keyId}`);
  const body = envelopeOf(merchant.credentials, '{"amount":1}');
  const status = async (): Promise<number | undefined> =>
    (await send(sidecar, path, { key: merchant.key, body })).status;
  await eventually('the revoked key is refused', async () => (await status()) === 401);
  // The KMS is called only once for the same line, however often the files change in the meantime.
  expect(isAsked()).toBe(asked + 1);
  expect(sidecar.entries('configuration is invalid: the current one is kept')).toEqual([]);
});

describe('a start with a KMS', () => {
  test('that is not available waits for it with one warning, and is ready within two seconds of its start', async () => {
    const setup = await setUp(newFile);
    setup.kms.stop();
    const sidecar = startCommand(['serve', '--config', setup.config]);
    const [warning] = await sidecar.untilEntries('waiting up to 45s for the KMS');
    expect(warning).toMatchObject({ level: 'warn', problem: expect.stringContaining('ENOENT') as string });
    await delay(2_500);
    expect(sidecar.log).toHaveLength(1);
    await setup.kms.start();
    await eventually('the KMS is called', () => setup.kms.calls.includes('Decrypt'), { timeout: 2_000 });
    await sidecar.untilEntries('listening', 2);
    expect(sidecar.entries('waiting up to 45s for the KMS')).toHaveLength(1);
  });

  test.each([
    ['that never comes ends after its time', 14, 'kms_unavailable', 1_500],
    ['that refuses ends at once', 7, 'kms_refused', 0],
  ])('%s, and opens no listener', async (_, status, code, least) => {
    const setup = await setUp(newFile, { wait: '1500ms' });
    setup.kms.failure = status;
    const began = performance.now();
    const sidecar = startCommand(['serve', '--config', setup.config]);
    expect(await sidecar.ended()).toMatchObject({ code: 1 });
    expect(performance.now() - began).toBeGreaterThan(least);
    expect(sidecar.stderr).toMatch(
      new RegExp(`^serve: Decrypt of the KMS at .* \\(gRPC ${status}\\) \\(${code}\\)\\n$`),
    );
    expect(sidecar.entries('listening')).toEqual([]);
    expect(setup.kms.calls.filter((call) => call === 'Decrypt').length).toBeGreaterThan(least === 0 ? 0 : 1);
  });

  test('that returns the wrong key reports a mistake in the configuration', async () => {
    const setup = await setUp(newFile);
    setup.kms.spoil = () => randomBytes(32);
    const sidecar = startCommand(['serve', '--config', setup.config]);
    expect(await sidecar.ended()).toMatchObject({ code: 78 });
    expect(sidecar.stderr).toMatch(
      /sidecar\.yaml:1:\d+ {2}accounts\.masterKey {2}the KMS at .* has opened a different key/,
    );
  });

  test('exposes metrics of its master keys, and logs when the KMS stops working', async () => {
    const setup = await setUp(newFile);
    const sidecar = await startServe(setup.config);
    await eventually('the metric of the KMS exists', async () => (await metric(sidecar, 'kms_healthy')).length === 1);
    expect(await metric(sidecar, 'kms_healthy')).toEqual(['envelope_sidecar_kms_healthy 1']);
    expect(await metric(sidecar, 'master_keys{')).toEqual([
      'envelope_sidecar_master_keys{environment="test",provider="kms",state="current"} 1',
    ]);
    expect(await metric(sidecar, 'kms_requests_total{')).toEqual([
      'envelope_sidecar_kms_requests_total{operation="decrypt",outcome="ok"} 1',
      'envelope_sidecar_kms_requests_total{operation="status",outcome="ok"} 1',
    ]);
  });
});

describe('lines of master keys', () => {
  test('are reported as mistakes, with their positions, if they are in the clear with a KMS, or wrapped without one', async () => {
    const setup = await setUp(newFile);
    const wrapped = readKeys(setup);
    setup.folder.write({ keys: `${wrapped}\n${clearKey()}` });
    expect(await setup.commands.run('check')).toMatchObject({
      code: 78,
      stdout: expect.stringMatching(
        /sidecar\.yaml:1:\d+ {2}accounts\.masterKey {2}line 2 is a master key in the clear: with "kms", wrap it with "master-key wrap"\n$/,
      ) as string,
    });
    setup.folder.write({ keys: wrapped });
    setup.write({ kms: undefined });
    expect((await setup.commands.run('check')).stdout).toMatch(/line 1 is wrapped by a KMS: set "kms"\n$/);
    expect((await setup.commands.run('master-key rewrap')).code).not.toBe(0);
  });

  test('are rewrapped in the same order, either all of them or those of one environment', async () => {
    const setup = await setUp(newFile);
    const [one, two, live] = [await setup.wrap(clearKey()), await setup.wrap(clearKey()), await setup.wrap(clearKey())];
    setup.folder.write({ test: `${one}\n${two}`, live });
    setup.write({ accounts: { file: 'accounts.yaml', masterKey: { test: { file: 'test' }, live: { file: 'live' } } } });
    setup.kms.rotate();
    const { run, json } = setup.commands;
    const valuesOf = (text: string): string[] => (parseMasterKeys(text) ?? []).map(({ kcv }) => kcv);
    const all = valuesOf([one, two, live].join('\n'));
    expect(new Set(all).size).toBe(3);
    expect(valuesOf((await run('master-key rewrap')).stdout)).toEqual(all);
    expect(valuesOf((await run('master-key rewrap --environment test')).stdout)).toEqual(all.slice(0, 2));
    const { stdout, stderr } = await run('master-key rewrap --environment live');
    expect([valuesOf(stdout), stderr]).toEqual([[all[2]], `KCV ${all[2]}\n`]);
    expect(parseMasterKeys(stdout)).toMatchObject([{ wrapped: { key_id: 'key-2' } }]);
    const listed = { provider: 'kms', key_id: 'key-1' };
    expect(await json('master-key list')).toEqual([
      { environment: 'test', place: 1, kcv: all[0], ...listed },
      { environment: 'test', place: 2, kcv: all[1], ...listed },
      { environment: 'live', place: 1, kcv: all[2], ...listed },
    ]);
  });

  test('are created before there is a configuration, wrapped if there is a KMS and in the clear if there is none', async () => {
    const kms = await startKms();
    const folder = new Folder({ 'sidecar.yaml': `kms: { socket: ${kms.socket} }\n`, 'none.yaml': 'listen: {}\n' });
    expect((await commandsOn(folder.file('sidecar.yaml')).run('master-key new')).stdout).toMatch(/^kms:v1:/);
    const none = commandsOn(folder.file('none.yaml'), { stdin: clearKey() });
    const { stdout, stderr } = await none.run('master-key new');
    expect(`KCV ${parseMasterKeys(stdout)?.[0]?.kcv}\n`).toBe(stderr);
    expect(await none.run('master-key wrap')).toMatchObject({ code: 1, stdout: '' });
    folder.write({ 'sidecar.yaml': `kms: { socket: ${kms.socket}\n` });
    expect(await commandsOn(folder.file('sidecar.yaml')).run('master-key new')).toMatchObject({ code: 78, stdout: '' });
  });
});

function readKeys({ folder }: Setup): string {
  return readFileSync(folder.file('keys'), 'utf8').trim();
}

/** Runs `serve` in this process until the test is over. Returns the merchants' port. */
async function serveInProcess(config: string, keyring: CliIo['keyring']): Promise<number> {
  const log = new PassThrough();
  const entries: Record<string, unknown>[] = [];
  log.on('data', (line: Buffer) => entries.push(JSON.parse(line.toString()) as Record<string, unknown>));
  const signals = new Map<string, () => void>();
  const ended = runProgram(['serve', '--config', config], {
    stdin: new PassThrough().end(),
    stdout: collect().output,
    stderr: collect().output,
    env: {},
    log,
    version: '0.0.0',
    clock: Date.now,
    keyring,
    onSignal: (signal, handler) => void signals.set(signal, handler),
  });
  onTestFinished(async () => {
    signals.get('SIGTERM')?.();
    expect(await ended).toBe(0);
  });
  const port = (): unknown => entries.find(({ listener }) => listener === 'merchants')?.['port'];
  await eventually('the sidecar listens', async () => port() !== undefined);
  await eventually('the sidecar handles signals', async () => signals.has('SIGHUP'));
  return Number(port());
}

test('a refused store is not tried again because of other changes, and its master keys are not unwrapped again', async () => {
  const setup = await setUp(async () => ({ file: 'accounts.yaml' }));
  const merchant = await setup.merchant();
  const sidecar = await startServe(setup.config);
  setup.folder.write({ 'other.yaml': 'accounts: []\n', 'other-keys': await setup.wrap(clearKey()) });
  const accounts = { file: 'other.yaml', masterKey: { file: 'other-keys' } };
  setup.write({ accounts });
  const refusal = 'configuration is invalid: the current one is kept';
  await sidecar.untilEntries(refusal);
  const before = countDecrypts(setup);
  expect(before).toBeGreaterThan(0);
  setup.folder.write({ 'other.yaml': 'accounts: [{ id: globex, name: Globex }]\n' });
  setup.write({ accounts, log: { level: 'debug' } });
  await sidecar.untilEntries(refusal, 2);
  await expectServed(sidecar, merchant);
  expect(countDecrypts(setup)).toBe(before);
  sidecar.signal('SIGHUP');
  await sidecar.untilEntries('configuration reloaded');
  expect((await send(sidecar, path, { key: merchant.key })).status).toBe(401);
});
