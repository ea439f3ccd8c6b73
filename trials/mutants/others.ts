import { mutantsOf, type Mutant } from './mutant.ts';

/** Guards outside the four rooms. */
export const otherMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/telemetry/logger.ts',
    ['test/telemetry/logger.test.ts'],
    [
      [
        "{ code: 'code' in error ? error.code : undefined, message: error.message, stack: error.stack }",
        '{ ...error, message: error.message, stack: error.stack }',
        'the log has none of the members that a library puts on an error',
      ],
    ],
  ),
  ...mutantsOf(
    'src/telemetry/change-log.ts',
    ['test/telemetry/change-log.test.ts'],
    [['maxChanges = 100;', 'maxChanges = 101;', 'a reload writes at most 100 lines of changes']],
  ),
  ...mutantsOf(
    'src/operators/listener.ts',
    ['test/operators/listener.test.ts'],
    [
      [
        "return new ApiProblem('internal_error', 'The log has the cause, under the id of this request.');",
        "return new ApiProblem('internal_error', String(error));",
        "an internal message does not leave with the operators' 500",
      ],
      ["server.on('checkExpectation', begin)", 'server', 'an expectation that HTTP does not define is ignored'],
      ['      unparsed.begin(res);\n', '', 'a refusal is not taken for the response to another request'],
      ['  app.server.setTimeout(idleTimeout);\n', '', 'an operator who does not read the response is disconnected'],
    ],
  ),
  ...mutantsOf(
    'src/operators/tokens.ts',
    ['test/operators/listener.test.ts'],
    [
      [
        'timingSafeEqual(given, Buffer.from(token.hash))',
        'timingSafeEqual(given.subarray(0, 8), Buffer.from(token.hash).subarray(0, 8))',
        "an operators' token is compared in whole",
      ],
    ],
  ),
  ...mutantsOf(
    'src/operators/input.ts',
    ['test/operators/operators.test.ts'],
    [['return parseJson(text);', 'return JSON.parse(text);', "a body of the operators' API has no duplicate member"]],
  ),
  ...mutantsOf(
    'src/admin/drain-token.ts',
    ['test/admin/admin.test.ts'],
    [
      [
        'timingSafeEqual(digest(token), digest(expected))',
        'timingSafeEqual(digest(token.slice(0, 10)), digest(expected.slice(0, 10)))',
        'the token of a drain is compared in whole',
      ],
    ],
  ),
  ...mutantsOf(
    'src/admin/shared-metrics.ts',
    ['test/admin/admin.test.ts'],
    [['this.#text ??= this.#render();', 'this.#text = this.#render();', 'metrics are rendered once for all who ask']],
  ),
  ...mutantsOf(
    'src/admin/drain-token.ts',
    ['test/cli/drain.test.ts'],
    [
      ['mode: 0o600', 'mode: 0o666', 'the token of a drain is for its owner alone'],
      ['O_RDONLY | O_NOFOLLOW', 'O_RDONLY', 'the token of a drain is not read through a link'],
    ],
  ),
];
