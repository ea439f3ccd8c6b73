import { mutantsOf, type Mutant } from './mutant.ts';

const postgres = ['test/accounts/postgres/directory.test.ts', 'test/accounts/postgres/outage.test.ts'];

/** Code that needs a PostgreSQL server. */
export const postgresMutants: readonly Mutant[] = [
  ...mutantsOf('src/accounts/postgres/directory.ts', postgres, [
    [
      'this.#stopwatch() - entry.span.heardAt < this.#staleFor',
      'this.#stopwatch() - entry.span.heardAt <= this.#staleFor',
      'in an outage a key is known for no longer than configured',
    ],
    [
      '} else if (entry?.span === this.#span) {',
      '} else if (entry !== undefined) {',
      'what was read before a reconnection is read again',
    ],
    [
      '      this.#known.delete(hash);\n      this.#unknown',
      '      this.#unknown',
      'a deleted key does not work again in the next outage',
    ],
    [
      'if (span === this.#span && changes === this.#changes) {',
      'if (span === this.#span) {',
      'what may have changed while it was read is not kept',
    ],
    [
      "      return { account, found: 'unavailable', span };",
      '      throw error;',
      'an unreadable account does not fail others',
    ],
    ['          this.#known.delete(hash);\n', '', 'a change is heard'],
    ["if (this.#heard.has('*')) this.#begin();", '', 'a change of all accounts is heard'],
    ['if (this.#unknown.size > 0) this.#unknown.clear();', '', 'a new key works at once'],
    [' && !this.#closed', '', 'a query that a close breaks off is no error'],
    ['    this.#batches.outdate();\n', '', 'a response that was under way at a change is not used'],
  ]),
];
