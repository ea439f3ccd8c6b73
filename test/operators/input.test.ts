import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import { readInput } from '../../src/operators/input.ts';
import { ApiProblem } from '../../src/operators/problems.ts';

const schema = z.strictObject({ token: z.string().optional(), name: z.string().optional() });

function refusalOf(sent: object): ApiProblem {
  try {
    readInput(schema, {}, sent);
  } catch (error) {
    if (error instanceof ApiProblem) return error;
    throw error;
  }
  throw new Error('the input is valid');
}

function unknown(count: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`tok${i}`, 0]));
}

test.each([
  [20, 20, 'every problem.'],
  [21, 20, 'the first 20 problems.'],
  [1_500, 20, 'the first 20 problems.'],
])('of an input with %i unknown members, %i problems are reported', (sent, reported, listed) => {
  const { message, members } = refusalOf(unknown(sent));
  expect(members).toHaveLength(reported);
  expect(members?.[0]).toEqual({ path: 'tok0', message: 'unknown member "tok0": did you mean "token"?' });
  expect(message).toBe(`The request is invalid: "errors" lists ${listed}`);
});

test('an invalid input is validated once, and no schema is made for it', () => {
  const refine = vi.spyOn(schema, 'refine');
  const parse = vi.spyOn(schema, 'safeParse');
  refusalOf(unknown(3));
  expect([refine.mock.calls.length, parse.mock.calls.length]).toEqual([0, 1]);
});

test('only the unknown names that are reported are compared with the known ones', () => {
  const lower = vi.spyOn(String.prototype, 'toLowerCase');
  refusalOf(unknown(1_500));
  const compared = lower.mock.calls.length;
  lower.mockRestore();
  expect(compared).toBeLessThan(100);
});
