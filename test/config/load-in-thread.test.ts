import { createServer } from 'node:http';
import { Worker } from 'node:worker_threads';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig, loadFiles } from '../../src/config/load.ts';
import { combine, type LoadedFiles } from '../../src/config/loaded.ts';
import { beginReading, loadInThread, LoadThread } from '../../src/config/load-in-thread.ts';
import { openEnvelope } from '../../src/envelope/envelope.ts';
import { Thread } from '../../src/thread.ts';
import { envelopeOf, send } from '../support/client.ts';
import { startCommand } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, acmeEntry, Folder, globexEntry, sidecarFile, type Contents } from '../support/folder.ts';
import { listen } from '../support/listen.ts';
import { acmeLive, acmeTest, enabledOf, keys, noMemory } from '../support/sidecar.ts';

const files = { 'sidecar.yaml': sidecarFile('http://127.0.0.1:1'), 'accounts.yaml': accountsFile() };

const watched = new Map([['/watched', 'version']]);

describe('loading in another thread', () => {
  const previous = { ...acmeLive, until: '2036-01-01' };
  const entry = {
    ...acmeEntry,
    encryption: {
      test: { enabled: true, ...acmeTest, encoding: 'base64', createdAt: '2026-11-01', previous },
      live: { enabled: true, key: 'x'.repeat(32), iv: 'y'.repeat(16), previous: { until: '2036-01-01' } },
    },
  };

  test('returns the configuration that this thread would have loaded', async () => {
    const folder = new Folder({ ...files, 'accounts.yaml': accountsFile(entry, globexEntry(keys.globex)) });
    const file = folder.file('sidecar.yaml');
    expect(await loadInThread({ file, env: {} })).toEqual(loadFiles(file, {}));
  });

  test('returns all problems that this thread would have found', async () => {
    const folder = new Folder({ ...files, 'sidecar.yaml': { surplus: 1 } });
    const file = folder.file('sidecar.yaml');
    const loaded = await loadInThread({ file, env: {} });
    expect(loaded.sidecar.ok).toBe(false);
    expect(combine(loaded)).toEqual(loadConfig(file, {}));
  });

  test('passes on the given environment variables, and no others', async () => {
    const folder = new Folder({ ...files, 'sidecar.yaml': sidecarFile('${HERE}') });
    const file = folder.file('sidecar.yaml');
    const { sidecar } = await loadInThread({ file, env: { HERE: 'http://127.0.0.1:7' } });
    expect(sidecar.ok && sidecar.value.environments[0]?.upstream.origin).toBe('http://127.0.0.1:7');
    expect((await loadInThread({ file, env: {} })).sidecar.ok).toBe(false);
  });

  test('continues a load that has begun, and does not read the files again', async () => {
    const folder = new Folder(files);
    const task = { file: folder.file('sidecar.yaml'), env: {} };
    const first = beginReading(task);
    const read = await first;
    folder.write({ 'sidecar.yaml': { surplus: 1 } });
    expect(await loadInThread(task, { first })).toBe(read);
  });

  test('returns the problem of a load that failed before anything awaited it', async () => {
    const task = { file: new Folder(files).file('sidecar.yaml'), env: { HERE: (() => '') as unknown as string } };
    const first = beginReading(task);
    await new Promise((resolve) => void setImmediate(resolve));
    const { sidecar } = await loadInThread(task, { first });
    expect(sidecar).toMatchObject({ ok: false, problems: [{ message: expect.stringContaining('DataCloneError') }] });
  });

  test('returns a problem if no thread can be started', async () => {
    const folder = new Folder(files);
    const file = folder.file('sidecar.yaml');
    // A value that cannot be cloned has the same effect as a system on which no more threads can be started.
    const env = { HERE: (() => 'canary') as unknown as string };
    const message = 'loading failed (DataCloneError): run "check" for details';
    const content = { ok: false, problems: [{ file, line: 1, column: 1, path: '.', message }] };
    const loaded = await loadInThread({ file, env }, { watched });
    expect(loaded).toEqual({
      sidecar: content,
      accounts: { ...content, revocable: [] },
      files: watched,
      digests: {},
    });
    expect(combine(loaded)).toEqual({ ...content, files: watched, digests: {} });
  });

  test('returns a problem if it takes longer than five minutes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const file = new Folder(files).file('sidecar.yaml');
    const ended = vi.spyOn(Worker.prototype, 'terminate');
    onTestFinished(() => ended.mockRestore());
    const loading = loadInThread({ file, env: {} }, { watched });
    // At this point, the thread has not begun to load anything.
    vi.advanceTimersByTime(299_999);
    expect(ended).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(ended).toHaveBeenCalledOnce();
    const message = 'loading failed (after 5 minutes): run "check" for details';
    const content = { ok: false, problems: [{ file, line: 1, column: 1, path: '.', message }] };
    expect(await loading).toEqual({
      sidecar: content,
      accounts: { ...content, revocable: [] },
      files: watched,
      digests: {},
    });
  });

  test('uses one thread for successive changes to an accounts file that operators can change, and a new one for each change otherwise', async () => {
    const started = vi.spyOn(Worker.prototype, 'ref');
    onTestFinished(() => started.mockRestore());
    const threadsFor = async (more: Contents): Promise<number> => {
      const folder = new Folder({ ...files, 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', more) });
      const task = { file: folder.file('sidecar.yaml'), env: {} };
      const thread = new LoadThread(60_000);
      onTestFinished(() => thread.end());
      started.mockClear();
      for (const id of ['one', 'two']) {
        folder.write({ 'accounts.yaml': accountsFile({ ...globexEntry(), id }) });
        const { accounts } = await loadInThread(task, { thread });
        expect(accounts).toMatchObject({ ok: true, value: [{ id }] });
      }
      return new Set(started.mock.contexts).size;
    };
    expect(await threadsFor({ operators: { port: 0, token: 'operators-token-of-a-test-0123456789' } })).toBe(1);
    expect(await threadsFor({})).toBe(2);
  });

  test('starts another thread if the previous one has waited long enough for a change', async () => {
    const operators = { port: 0, token: 'operators-token-of-a-test-0123456789' };
    const folder = new Folder({ ...files, 'sidecar.yaml': sidecarFile('http://127.0.0.1:1', { operators }) });
    const ended = vi.spyOn(Worker.prototype, 'terminate');
    onTestFinished(() => ended.mockRestore());
    const thread = new LoadThread(1);
    for (const times of [1, 2]) {
      expect((await loadInThread({ file: folder.file('sidecar.yaml'), env: {} }, { thread })).sidecar.ok).toBe(true);
      await eventually('the thread is ended', () => ended.mock.calls.length === times);
    }
  });

  test('is refused once the thread has been ended', async () => {
    const caller = new URL('../../src/config/load-in-thread.ts', import.meta.url).href;
    const thread = new Thread('load-worker', caller, undefined);
    await thread.end('over');
    await expect(thread.ask('next')).rejects.toThrow(/^over$/);
  });

  test('returns a problem that mentions memory if there is too little of it', async () => {
    // Because of the line breaks in the names, only the full parser can read this JSON.
    const accounts = Array.from({ length: 20_000 }, (_, i) => ({ id: `account-${i}`, name: `${'n'.repeat(40)}\n` }));
    const folder = new Folder({ ...files, 'accounts.yaml': { accounts } });
    const sidecar = startCommand(['serve', '--config', folder.file('sidecar.yaml')], {
      nodeOptions: ['--max-old-space-size=40'],
    });
    expect(await sidecar.ended()).toEqual({ code: 78, signal: null });
    expect(sidecar.stderr).toContain(`${folder.file('sidecar.yaml')}:1:1  .  there is not enough memory to load it\n`);
  });

  test('returns at most 100 problems and the number of further ones on a reload, because each is logged while requests are served', async () => {
    const accounts = Array.from({ length: 1_000 }, (_, i) => ({ id: `account ${i}`, name: 'A' }));
    const folder = new Folder({ ...files, 'accounts.yaml': { accounts } });
    const task = { file: folder.file('sidecar.yaml'), env: {} };
    const problemsIn = async (more: object): Promise<readonly { path: string; message: string }[]> => {
      const loaded = await loadInThread({ ...task, ...more });
      return loaded.accounts?.ok === false ? loaded.accounts.problems : [];
    };
    const running = { type: 'file', file: folder.file('accounts.yaml'), masterKeys: [], auditKeys: [] };
    const problems = await problemsIn({ running });
    expect(problems).toHaveLength(101);
    expect(problems.at(-1)).toMatchObject({ path: 'accounts[100].id', message: 'and 900 more problems from here on' });
    expect(await problemsIn({})).toHaveLength(1_000);
  });

  test('returns codecs that open envelopes with current and previous credentials', async () => {
    const folder = new Folder({ ...files, 'accounts.yaml': accountsFile(entry) });
    const { accounts } = await loadInThread({ file: folder.file('sidecar.yaml'), env: {} });
    const { current, grace } = enabledOf(accounts?.ok === true ? accounts.value[0]?.encryption.test : undefined);
    const candidates = [current, grace?.previous].filter((each) => each !== undefined);
    expect(candidates).toHaveLength(2);
    for (const sealedWith of [acmeTest, acmeLive]) {
      const opened = await openEnvelope(Buffer.from(envelopeOf(sealedWith, '{"amount":1}')), candidates, noMemory);
      expect(opened).toMatchObject({ plaintext: Buffer.from('{"amount":1}') });
    }
  });
});

describe('loading 10,000 accounts in another thread', () => {
  const accounts = Array.from({ length: 10_000 }, (_, i) => {
    const digits = String(i).padStart(16, '0');
    const key = `sk_test_${digits}`;
    return {
      id: `account-${i}`,
      name: `Account ${i}`,
      keys: [{ id: `key-${i}`, key, createdAt: '2026-11-01' }],
      encryption: { test: { enabled: true, key: `key-${digits}-of-32-bytes`, iv: digits } },
    };
  });

  test('lets this thread respond in the meantime, and transfers the accounts in small groups', async () => {
    const folder = new Folder({ ...files, 'accounts.yaml': { accounts } });
    const server = createServer((_req, res) => res.end('answered'));
    const port = await listen(server);

    // Records how this thread's other work and the messages from the other thread alternate.
    let turning = true;
    const turn = vi.fn<() => void>(() => {
      if (turning) setImmediate(turn);
    });
    const emit = vi.spyOn(Worker.prototype, 'emit');
    onTestFinished(() => {
      turning = false;
      emit.mockRestore();
    });
    turn();

    const loaded = vi.fn<(result: LoadedFiles) => void>();
    void loadInThread({ file: folder.file('sidecar.yaml'), env: {} }).then(loaded);
    let answered = 0;
    while (loaded.mock.calls.length === 0) {
      expect((await send({ port }, 'GET /')).body).toBe('answered');
      answered += 1;
    }
    const [[result] = []] = loaded.mock.calls;
    expect(result?.accounts?.ok && result.accounts.value.length).toBe(10_000);
    // Loading the accounts takes hundreds of times as long as a request.
    expect(answered).toBeGreaterThan(20);
    const messages = emit.mock.invocationCallOrder.filter((_, i) => String(emit.mock.calls[i]?.[0]) === 'message');
    expect(messages).toHaveLength(101);
    const turns = turn.mock.invocationCallOrder;
    const withoutTurn = messages
      .slice(1)
      .filter((at, i) => !turns.some((each) => each < at && each > (messages[i] ?? 0)));
    expect(withoutTurn).toEqual([]);
  });
});
