import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { FileStates } from '../../src/config/file-states.ts';
import type { ConfigFile, LoadedFiles } from '../../src/config/loaded.ts';
import { configOf } from '../support/sidecar.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { ReloadMetrics } from '../../src/telemetry/reload-metrics.ts';

const config = configOf('http://127.0.0.1:1');
const problem = { file: 'x.yaml', line: 1, column: 1, path: '', message: 'wrong' };
const bad = { ok: false, problems: [problem], revocable: [] } as const;
const sidecar = { ok: true, value: config, warnings: [] } as const;
const accounts = { ok: true, value: [], warnings: [] } as const;

/** Creates the states of both files, loaded at the time 1,000, and moves the clock to `time`. */
function statesAt(time: number) {
  let now = 1_000;
  const lines: Record<string, unknown>[] = [];
  const states = new FileStates(config, {
    log: createLogger('info', { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) }),
    metrics: new ReloadMetrics(new Registry()),
    clock: () => now,
    digests: { sidecar: 's1', accounts: 'a1' },
  });
  now = time;
  return {
    loaded: (files: unknown, apply = () => {}): Record<ConfigFile, number | undefined> => {
      states.take({ digests: {}, ...(files as object) } as LoadedFiles, config, apply);
      return { sidecar: states.of('sidecar')?.loadedAt, accounts: states.of('accounts')?.loadedAt };
    },
    reloaded: () => lines.filter(({ msg }) => msg === 'configuration reloaded').map(({ files }) => files),
    messages: () => lines.map(({ problem }) => problem),
    problems: () => [states.of('sidecar')?.problems.length, states.of('accounts')?.problems.length],
  };
}

test('the time of a file is the load time of the content in force', () => {
  const fail = (): void => {
    throw new Error('cannot be applied');
  };
  for (const [files, apply, times, problems] of [
    [{ sidecar, accounts }, undefined, { sidecar: 5_000, accounts: 5_000 }, [0, 0]],
    // If a file is invalid, its previous content stays in force, with its time.
    [{ sidecar: bad, accounts }, undefined, { sidecar: 1_000, accounts: 5_000 }, [1, 0]],
    [{ sidecar, accounts: bad }, undefined, { sidecar: 5_000, accounts: 1_000 }, [0, 1]],
    [{ sidecar: bad, accounts: bad }, undefined, { sidecar: 1_000, accounts: 1_000 }, [1, 1]],
    // The same is true if the new content cannot be applied.
    [{ sidecar, accounts }, fail, { sidecar: 1_000, accounts: 1_000 }, [1, 1]],
  ] as const) {
    const states = statesAt(5_000);
    expect(states.loaded(files, apply)).toEqual(times);
    expect(states.problems()).toEqual(problems);
  }
});

test.each([
  ['what changed only', { sidecar, accounts, digests: { sidecar: 's2', accounts: 'a1' } }, [['sidecar']]],
  [
    'both, if both changed',
    { sidecar, accounts, digests: { sidecar: 's2', accounts: 'a2' } },
    [['sidecar', 'accounts']],
  ],
  ['that nothing changed', { sidecar, accounts, digests: { sidecar: 's1', accounts: 'a1' } }, [[]]],
  [
    'nothing if the changed file is refused',
    { sidecar, accounts: bad, digests: { sidecar: 's1', accounts: 'a2' } },
    [],
  ],
  [
    'one that changed beside a refused one',
    { sidecar, accounts: bad, digests: { sidecar: 's2', accounts: 'a2' } },
    [['sidecar']],
  ],
])('the log line of a reload names %s', (_, files, lines) => {
  const states = statesAt(5_000);
  states.loaded(files);
  expect(states.reloaded()).toEqual(lines);
});

test('problems and warnings of files that are read again are logged again only if they have changed', () => {
  const states = statesAt(5_000);
  const digests = { sidecar: 's1', accounts: 'a1' };
  const other = { ...problem, message: 'wrong elsewhere' };
  const warned = { ...sidecar, warnings: [{ ...problem, message: 'odd' }] };
  const line = (message: string): string => `x.yaml:1:1    ${message}`;
  states.loaded({ sidecar: warned, accounts: bad, digests });
  expect(new Set(states.messages())).toEqual(new Set([line('odd'), line('wrong')]));
  states.loaded({ sidecar: warned, accounts: bad, digests, isRepeated: true });
  expect(states.messages()).toHaveLength(2);
  states.loaded({ sidecar: warned, accounts: { ...bad, problems: [other] }, digests, isRepeated: true });
  expect(states.messages().slice(2)).toEqual([line('wrong elsewhere')]);
  states.loaded({ sidecar: warned, accounts: bad, digests });
  expect(states.messages()).toHaveLength(5);
});
