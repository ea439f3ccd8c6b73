import { expect, onTestFinished, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { Upstreams } from '../../src/upstream/upstream.ts';
import { configOf, targetOf } from '../support/sidecar.ts';

const first = configOf('http://127.0.0.1:1');

test.each<['kept' | 'replaced', string, Config]>([
  ['kept', 'the same configuration', configOf('http://127.0.0.1:1')],
  ['replaced', 'another origin', configOf('http://127.0.0.1:2')],
  ['replaced', 'another timeouts.connect', configOf('http://127.0.0.1:1', { timeouts: { connect: 1 } })],
  [
    'replaced',
    'a client certificate',
    configOf('', {
      environments: [{ name: 'test', hosts: [], upstream: targetOf('http://127.0.0.1:1', { cert: 'x' }) }],
    }),
  ],
])('an upstream client is %s by a reload with %s', (outcome, _change, second) => {
  const upstreams = new Upstreams(() => {});
  const before = upstreams.configure(first).get('test');
  onTestFinished(() => before?.close());
  const after = upstreams.configure(second).get('test');
  onTestFinished(() => after?.close());
  expect(after === before).toBe(outcome === 'kept');
  expect(upstreams.all()).toEqual([after]);
});
