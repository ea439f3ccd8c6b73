import { mutantsOf, type Mutant } from './mutant.ts';

const changes = ['test/accounts/changes.test.ts', 'test/accounts/operations.test.ts'];
const vault = ['test/accounts/vault.test.ts'];

/** Accounts, API keys, and where they are kept. */
export const accountsMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/accounts/transfer/account-lines.ts',
    ['test/accounts/transfer/account-lines.test.ts'],
    [['value = parseJson(text);', 'value = JSON.parse(text);', 'a line has no duplicate member']],
  ),
  ...mutantsOf(
    'src/accounts/api-key.ts',
    ['test/gateway/admission.test.ts', 'test/accounts/key-maker.test.ts'],
    [
      ['{16,200}$/', '{15,200}$/', 'an API key has at least 16 characters behind its prefix'],
      ['{16,200}$/', '{16,201}$/', 'an API key has at most 200 characters behind its prefix'],
      [
        "prefix === 'pk_test_' || prefix === 'sk_test_' ? 'test' : 'live'",
        "prefix.startsWith('pk') ? 'test' : 'live'",
        'the prefix says the environment',
      ],
      [
        "prefix === 'pk_test_' || prefix === 'pk_live_' ? 'public'",
        "prefix === 'pk_test_' ? 'public'",
        'a public live key is not a secret one',
      ],
    ],
  ),
  ...mutantsOf('src/accounts/changes.ts', changes, [
    [
      "if (found !== undefined) throw new AccountsError('account_exists'",
      "if (false) throw new AccountsError('account_exists'",
      'an account is not added over another',
    ],
    ["if (state === 'revoked') throw", 'if (false) throw', 'a revoked key is not rotated'],
    ["if (state === 'expired') throw", 'if (false) throw', 'an expired key is not rotated'],
    ['if (account.keys.some((each) => each.id === id)) {', 'if (false) {', 'a key has one successor'],
    [
      'Math.min(now + overlap, expiresAt ?? Infinity)',
      'now + overlap',
      'a rotated key does not live longer than before',
    ],
    [
      'expiresAt: lifetime === undefined ? undefined : now + lifetime',
      'expiresAt: undefined',
      'a successor lives as long as the key before',
    ],
    [
      'kind: kindOf(prefix),\n    expiresAt: lifetime',
      "kind: 'secret',\n    expiresAt: lifetime",
      'a successor is of the same kind',
    ],
    ['if (key.revokedAt !== undefined) throw', 'if (false) throw', 'the time of a revocation stays'],
    ['{ ...key, revokedAt: now }', '{ ...key, expiresAt: now }', 'a revocation is kept as one'],
    ['if (before?.enabled && !replace) {', 'if (false) {', 'credentials in use are replaced only if asked for'],
    [
      'if (grace !== undefined) refuseSecondGrace(before, now);\n  const { key, iv, format }',
      'const { key, iv, format }',
      'a second grace does not replace a running one',
    ],
    [
      'if (grace !== undefined) refuseSecondGrace(before, now);\n  return',
      'return',
      'disabling with a grace does not replace a running one',
    ],
    ["key: vault.wrap(key, { ...place, member: 'key' })", 'key', 'a new AES key is wrapped before it is stored'],
    ["iv: vault.wrap(iv, { ...place, member: 'iv' })", 'iv', 'a new IV is wrapped before it is stored'],
    ['  refuseEqual(after, vault);\n', '', 'new credentials are compared with those of the other environment'],
    [
      'until <= now || until > now + maxGrace',
      'until < now || until > now + maxGrace',
      'a grace does not end now by its end',
    ],
    [
      'until <= now || until > now + maxGrace',
      'until <= now || until > now + maxGrace + 1',
      'a grace is no longer than a year',
    ],
    [
      'if (before?.previous === undefined || !isInGrace(before, now)) {\n    throw',
      'if (before?.previous === undefined) {\n    throw',
      'a grace that is over is not extended',
    ],
    [
      '  if (!before?.enabled) {\n    throw',
      '  if (before === undefined) {\n    throw',
      'what is disabled is not disabled again',
    ],
    [
      '    credentials: undefined,\n    previous: grace',
      '    credentials: before.credentials,\n    previous: grace',
      'disabled credentials are forgotten',
    ],
    [
      'before?.enabled ? before.credentials : undefined',
      'before?.credentials',
      'a grace does not accept credentials that were disabled',
    ],
    [
      'if (!sameCredentials(opened, unwrapCredentials(other',
      'if (sameCredentials(opened, unwrapCredentials(other',
      'test and live have keys of their own',
    ],
    [
      '[encryption?.credentials, encryption?.previous?.credentials]',
      '[encryption?.credentials]',
      'previous credentials are compared as well',
    ],
    [
      'to.isCurrent(text, place) ? text : to.wrap(from.unwrap(text, place), place)',
      'text',
      'a new master key wraps all credentials',
    ],
    [
      'credentials: one.previous.credentials && rewrapped(one.previous.credentials, environment),',
      'credentials: one.previous.credentials,',
      'a new master key wraps previous credentials',
    ],
  ]),
  ...mutantsOf('src/accounts/operations.ts', changes, [
    ["if (this.#vault.holds(to) === 'none') {", 'if (false) {', 'a master key that no sidecar has is not used'],
    ['before.active === active ? undefined : account', 'account', 'what is so already makes no event'],
    [
      "'secret_shown' in view ? { ...view, secret_shown: true } : view",
      'view',
      'a repeated request says that the secret was shown',
    ],
    [
      "JSON.stringify('secret_shown' in view",
      "JSON.stringify(secret !== undefined ? { ...view, ...secret } : 'secret_shown' in view",
      'a receipt holds no secret',
    ],
    ['      idempotencyKey,\n    );\n', '    );\n', 'a repeated request changes nothing'],
    ['for (const event of changed.result.events) this.#audit(event);', '', 'each change has an audit line'],
  ]),
  ...mutantsOf(
    'src/accounts/queries.ts',
    ['test/operators/queries.test.ts', 'test/operators/permission.test.ts'],
    [
      ['(only !== undefined && account.id !== only)', 'false', 'a token of one account finds no key of another'],
      [
        'account !== undefined && isSelected(account, wanted)',
        'account !== undefined',
        'a token of one account is filtered as others are',
      ],
      ['} else if (only > after) {', '} else {', 'a page of one account ends'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/api-key.ts',
    ['test/gateway/admission.test.ts'],
    [
      ['now < expiresAt ?', 'now <= expiresAt ?', 'a key is refused from its expiry on'],
      ['if (revokedAt !== undefined) return', 'if (false) return', 'a revoked key is refused'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/conditions.ts',
    ['test/accounts/file/store.test.ts', 'test/accounts/changes.test.ts', 'test/accounts/operations.test.ts'],
    [
      [
        'previous !== undefined && now < previous.until',
        'previous !== undefined && now <= previous.until',
        'a grace is over at its end',
      ],
      ['if (!isValidKey(key, now)) return [];\n', '', 'a key that is not valid needs no attention'],
      ['now - createdAt >= rotationAge', 'now - createdAt > rotationAge', 'a key is due at its rotation age'],
      ['<= now + expiryNotice;', '< now + expiryNotice;', 'a key is expiring from its notice on'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/tally.ts',
    ['test/accounts/tally.test.ts'],
    [
      ['if (!isValidKey(key, now)) continue;\n', '', 'keys that are not valid are not counted'],
      ['isExpiring(key, now) ? 1 : 0', '1', 'only keys that end soon are counted as expiring'],
      ["isDue(createdAt, now) ? 'due' : 'current'", "'current'", 'old keys are counted as due'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/unwrap-account.ts',
    ['test/accounts/file/read.test.ts', 'test/gateway/grace.test.ts'],
    [
      ['if (!enabled) {', 'if (false) {', 'disabled credentials do not encrypt'],
      [
        'if (previous !== undefined && before !== undefined) {',
        'if (previous !== undefined) {',
        'disabled encryption accepts nothing without previous credentials',
        'the type says so: without credentials there is nothing to open with, and the next line would not compile',
      ],
      [
        '      grace: previous && { previous: before, until: previous.until },',
        '      grace: previous && { previous: undefined, until: previous.until },',
        'a grace with credentials does not accept plaintext',
      ],
    ],
  ),
  ...mutantsOf(
    'src/accounts/key-maker.ts',
    ['test/accounts/key-maker.test.ts', 'test/accounts/changes.test.ts'],
    [
      ['const randomLength = 32;', 'const randomLength = 31;', 'a key has 190 random bits'],
      [
        'checksumOf(key.slice(0, -checksumLength)) === key.slice(-checksumLength)',
        'true',
        'a mistyped key is told by its checksum',
      ],
      ['base62.charAt(randomInt(base62.length))', 'base62.charAt(randomInt(10))', 'keys use the whole alphabet'],
      ['`successor of ${keyId}`', "'successor'", 'each key has its own successor'],
    ],
  ),
  ...mutantsOf('src/accounts/vault.ts', vault, [
    ['algorithm, key, nonce).setAAD(nameOf(place));', 'algorithm, key, nonce);', 'a wrapped text belongs to its place'],
    [
      "['envelope-sidecar', 'v1', account, environment, member]",
      "['envelope-sidecar', 'v1', account, environment]",
      'a wrapped IV is no wrapped key',
    ],
    [
      "['envelope-sidecar', 'v1', account, environment, member]",
      "['envelope-sidecar', 'v1', account, member]",
      'a text wrapped for test does not unwrap in live',
    ],
    [
      "['envelope-sidecar', 'v1', account, environment, member]",
      "['envelope-sidecar', 'v1', environment, member]",
      'a text wrapped for one account does not unwrap in another',
    ],
    [".join('\\0')", ".join('')", 'no two places share a name'],
    ['const nonce = randomBytes(nonceLength);', 'const nonce = Buffer.alloc(nonceLength);', 'no nonce is used twice'],
    [
      "const isWhole = bytes.toString('base64url') === written;",
      'const isWhole = true;',
      'a wrapped text is strict base64url',
    ],
    [
      'if (bytes.length < nonceLength + tagLength) return undefined;',
      '',
      'a wrapped text that is too short is refused',
    ],
    ['authTagLength: tagLength', 'authTagLength: 4', 'the tag is compared in whole'],
    ['if (this.#keys.length === 0) {', 'if (false) {', 'a missing master key is named'],
    [
      'keys.every((key) => key?.length === keyLength)',
      'keys.some((key) => key?.length === keyLength)',
      'each master key has 32 bytes',
    ],
    ['return key === undefined && !isWrapped(text);', 'return true;', 'a text in the clear is wrapped anew'],
    [
      "return place === 0 ? 'first' : 'other';",
      "return 'first';",
      'a master key that only unwraps is told from the one that wraps',
    ],
    [
      'for (const key of this.#keys) {\n      const unwrapped',
      'for (const key of this.#keys.slice(0, 1)) {\n      const unwrapped',
      'each master key unwraps',
    ],
  ]),
  ...mutantsOf(
    'src/accounts/transfer/importer.ts',
    ['test/cli/accounts-transfer.test.ts', 'test/accounts/transfer/importer.test.ts'],
    [
      ['        refuseEqual(account, this.#from);\n', '', 'an import takes no key of both environments'],
      [
        'return rewrap(account, this.#from, this.#options.vault);',
        'return account;',
        'an import wraps with the own master key',
      ],
      [
        "if (plain(account, this.#from) === plain(existing, this.#options.vault)) return 'unchanged';",
        "return 'unchanged';",
        'an import tells an account that differs',
      ],
    ],
  ),
  ...mutantsOf(
    'src/accounts/transfer/lines.ts',
    ['test/accounts/transfer/lines.test.ts'],
    [
      [
        'if (length > maxLineLength + 1) parts = [];',
        'if (false) parts = [];',
        'nothing is kept of a line that is too long',
        'only memory tells: the line is left out in either case',
      ],
      ['line.length > maxLineLength;', 'line.length > maxLineLength + 1;', 'a line has at most 256 KiB'],
      ['{ fatal: true }', '{ fatal: false }', 'a file is UTF-8'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/transfer/csv.ts',
    ['test/accounts/transfer/csv.test.ts'],
    [
      ['if (cells.length > maxCells)', 'if (cells.length > maxCells + 1)', 'a record has at most 1,000 cells'],
      ['if (cell.length > maxCellLength) {', 'if (false) {', 'a cell is bounded'],
      [
        "next === undefined || next === ',' ? quote + 1 : undefined",
        'quote + 1',
        'nothing follows a closing quote but a comma',
      ],
    ],
  ),
];
