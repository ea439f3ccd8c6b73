import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { FairQueue, OneAtATime } from '../src/fair-queue.ts';

test('an owner that adds one piece after another gets every second turn, alternating with an owner whose pieces all wait', async () => {
  const turns: string[] = [];
  const one = new OneAtATime();
  const take = (owner: string) =>
    one.run(owner, async () => {
      turns.push(owner);
      await setImmediate();
    });
  const inTurn = async () => {
    for (let piece = 0; piece < 4; piece++) await take('in turn');
  };
  await Promise.all([inTurn(), ...Array.from({ length: 4 }, () => take('all at once'))]);
  expect(turns).toEqual(Array.from({ length: 4 }, () => ['in turn', 'all at once']).flat());
});

test('owners whose pieces all wait take turns, and an owner whose pieces were withdrawn gets none', () => {
  const queue = new FairQueue<string>();
  const turns: string[] = [];
  const add = (owner: string) => queue.add(owner, () => void turns.push(owner));
  const withdrawn = ['a', 'a', 'a', 'c', 'b', 'b', 'c'].map(add).filter((_, index) => index === 3 || index === 6);
  for (const withdraw of withdrawn) withdraw();
  for (let start = queue.shift(); start !== undefined; start = queue.shift()) start();
  expect(turns).toEqual(['a', 'b', 'a', 'b', 'a']);
});
