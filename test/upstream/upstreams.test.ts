import { expect, onTestFinished, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { Upstreams } from '../../src/upstream/upstream.ts';
import { configOf, targetOf } from '../support/sidecar.ts';

const first = configOf('http://127.0.0.1:1');

test.each<[string, Config, boolean]>([
  ['the same', configOf('http://127.0.0.1:1'), true],
  ['another origin', configOf('http://127.0.0.1:2'), false],
  ['another time to connect', configOf('http://127.0.0.1:1', { timeouts: { connect: 1 } }), false],
  [
    'a client certificate',
    configOf('', {
      environments: [{ name: 'test', hosts: [], upstream: targetOf('http://127.0.0.1:1', { cert: 'x' }) }],
    }),
    false,
  ],
])('with %s, an upstream keeps its connections or is replaced', (_name, second, isKept) => {
  const upstreams = new Upstreams();
  const before = upstreams.configure(first).get('test');
  onTestFinished(() => before?.close());
  const after = upstreams.configure(second).get('test');
  onTestFinished(() => after?.close());
  expect(after === before).toBe(isKept);
  expect(upstreams.all()).toEqual([after]);
});
