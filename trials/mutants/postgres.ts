import { mutantsOf, type Mutant } from './mutant.ts';

const postgres = ['test/accounts/postgres/directory.test.ts', 'test/accounts/postgres/outage.test.ts'];

/** Code that needs a PostgreSQL server. */
export const postgresMutants: readonly Mutant[] = [
  ...mutantsOf('src/accounts/postgres/key-cache.ts', postgres, [
    [
      'this.#monotonic() - entry.span.heardAt < this.#staleFor',
      'this.#monotonic() - entry.span.heardAt <= this.#staleFor',
      'in an outage a key is known for no longer than configured',
    ],
    [
      'if (entry?.span === this.#span) return entry;',
      'if (entry !== undefined) return entry;',
      'what was read before a reconnection is read again',
    ],
    [
      '    this.#known.delete(hash);\n    this.#unknown',
      '    this.#unknown',
      'a deleted key does not work again in the next outage',
    ],
    ['      this.#remember(hash);\n      this.#known.delete(hash);\n', '', 'a change is heard'],
    ['if (this.#unknown.size > 0) this.#unknown.clear();', '', 'a new key works at once'],
  ]),
  ...mutantsOf('src/accounts/postgres/directory.ts', postgres, [
    [
      'if (span === this.#cache.span && changes === this.#changes) {',
      'if (span === this.#cache.span) {',
      'what may have changed while it was read is not kept',
    ],
    [
      "      return { account, found: 'unavailable', span };",
      '      throw error;',
      'an unreadable account does not fail others',
    ],
    ["if (this.#heard.has('*')) this.#cache.beginSpan();", '', 'a change of all accounts is heard'],
    [' && !this.#closed', '', 'a query that a close breaks off is no error'],
    ['    this.#batches.outdate();\n', '', 'a response that was under way at a change is not used'],
  ]),
  ...mutantsOf(
    'src/accounts/postgres/trail.ts',
    ['test/accounts/postgres/store.test.ts', 'test/accounts/postgres/store-suite.test.ts'],
    [
      [
        "  await run('SELECT pg_advisory_xact_lock($1)', [endOfTrail]);\n",
        '',
        'an event is not added before one that can be read already',
      ],
      ['String(after)', "'0'", 'a page of the trail continues behind the page before'],
    ],
  ),
];
