import { mutantsOf, type Mutant } from './mutant.ts';

const store = ['test/accounts/file/store.test.ts'];
const replace = [
  'test/accounts/file/replace.test.ts',
  'test/accounts/file/modes.test.ts',
  'test/accounts/file/durable.test.ts',
];
const odd = ['test/accounts/file/odd-files.test.ts'];
const read = ['test/accounts/file/read.test.ts', 'test/accounts/file/odd-files.test.ts'];

/** The accounts' file. */
export const accountsFileMutants: readonly Mutant[] = [
  ...mutantsOf('src/accounts/file/replace.ts', replace, [
    ["'wx', 0o600)", "'wx', 0o666)", 'the new file is open to its owner only while it is written'],
    ['  fchmodSync(file, mode);\n', '', 'a file keeps its mode'],
    ['if (own.uid !== uid || own.gid !== gid) fchownSync(file, uid, gid);', '', 'a file keeps its owner'],
    ['if (versionOf(path) !== version) return false;\n', '', 'a change made by hand meanwhile is not lost'],
    ['    check(newNameOf(path));\n', '', 'the new file is read before it takes the place'],
    ['for (const file of files) rmSync(newNameOf(file.path), { force: true });', '', 'nothing is left beside the file'],
    ['  rmSync(written, { force: true });\n', '', 'what a killed process left is not in the way'],
    ['mtimeNs, ctimeNs]', 'mtimeNs]', 'a change of the same size and time is another version'],
    [
      '    fsyncSync(file);\n  } finally {\n    closeSync(file);\n  }\n}\n\n/** A rename',
      '  } finally {\n    closeSync(file);\n  }\n}\n\n/** A rename',
      'the text is on the disk before the rename',
    ],
    ['  sync(dirname(path));\n', '', 'the rename is on the disk'],
  ]),
  ...mutantsOf(
    'src/accounts/file/lock.ts',
    [...replace, ...odd],
    [
      [
        "openSync(lock, 'wx', 0o600)",
        "openSync(lock, 'wx', 0o666)",
        'the lock is open to its owner only while it is made',
      ],
      ['    copyRights(path, file);\n', '', 'who may write the file may take its lock'],
      ['  accessSync(path, constants.W_OK);\n', '', 'who may not write the file does not take its lock'],
      ['if (!lstatSync(lock).isFile()) throw notALock(lock);', '', 'a lock is a regular file'],
      ['BEGIN EXCLUSIVE', 'BEGIN', 'there is one writer at a time'],
      ['if (waited >= patience) throw', 'if (false) throw', 'a writer does not wait forever'],
      [
        '    database.close();\n    throw unusable',
        '    throw unusable',
        'a lock that was not taken is let go of',
        'the database is closed with the object, at some time; no test can wait for that',
      ],
      [
        '    // A lock with the wrong rights would keep out users who may write the file.\n    rmSync(lock);\n',
        '',
        'a lock with wrong rights is taken away',
      ],
    ],
  ),
  ...mutantsOf(
    'src/accounts/file/thread.ts',
    ['test/accounts/file/thread.test.ts'],
    [
      ['this.#turn = result.catch(() => {});', '', 'operations are carried out one at a time'],
      ["if ('code' in reply) throw", 'if (false) throw', 'a refusal of the thread is one of the operation'],
    ],
  ),
  ...mutantsOf(
    'src/thread.ts',
    ['test/accounts/file/thread.test.ts', 'test/config/load-in-thread.test.ts'],
    [
      [
        "    this.#worker.on('error', (error) => this.#fail(error));\n",
        '',
        'a thread that failed gets no other operation',
      ],
      ['    this.#fail(new ThreadEnded(why));\n', '', 'an operation does not go to a thread that is being ended'],
      ['    if (this.hasEnded) throw this.#failure;\n', '', 'a request to a thread that has ended is not waited for'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/file/failures.ts',
    [...store, ...odd],
    [['if (error instanceof WrongValue) return new', 'if (false) return new', 'a file that cannot be used is told so']],
  ),
  ...mutantsOf('src/accounts/file/store.ts', store, [
    [
      "if (receipt !== undefined) return { outcome: 'repeated', receipt };",
      '',
      'a repeated request is not carried out',
    ],
    ['if (ids.has(key.id) || hashes.has(key.hash)) {', 'if (false) {', 'no two accounts share a key'],
    [
      'isDeepStrictEqual(rewritten.map(membersOf), accounts.map(membersOf))',
      'true',
      'what was written is read again and compared',
    ],
    ['if (versionOf(path) === read.version) rollBack();', '', 'a change that failed leaves no event'],
    [
      'readsOthers ? undefined : { text, accounts }',
      '{ text, accounts }',
      'files that are referred to are read each time',
    ],
    ['if (text === this.#known?.text)', 'if (this.#known !== undefined)', 'a change made by hand is read'],
    ['replaced(read.accounts, rewritten)', 'read.accounts', 'a change is seen by the store that made it'],
    ['if (!written) rollBack();', 'if (!written) {}', 'a change that was not made leaves no event'],
    ['      release?.();\n', '', 'the lock is let go of'],
    ['account.id > after && ', '', 'a list goes on behind its page'],
    ['return realpathSync(this.#file);', 'return this.#file;', 'a symbolic link stays one'],
  ]),
  ...mutantsOf(
    'src/accounts/file/receipts.ts',
    ['test/accounts/file/receipts.test.ts', ...store],
    [
      ['const maxReceipts = 1_000;', 'const maxReceipts = 999;', 'the last 1,000 receipts are kept'],
      ['keys.length > most.length', 'most.length === 0', 'an account displaces only its own receipts'],
      ['refuseReuse(idempotencyKey, found.request);', '', 'an idempotency key stands for one request'],
      [
        "if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map();",
        'return new Map();',
        'receipts that cannot be read are not taken for none',
      ],
    ],
  ),
  ...mutantsOf(
    'src/accounts/file/trail.ts',
    ['test/accounts/file/trail.test.ts', ...replace, ...store, ...odd],
    [
      ['O_NONBLOCK, 0o600)', 'O_NONBLOCK, 0o666)', 'the trail is open to its owner only while it is made'],
      ['    copyRights(this.#model, file);\n', '', 'the trail has the mode of the file'],
      ["endsLine(file, size) ? '' : '\\n'", "''", 'an event begins on a line of its own'],
      ['if (before !== undefined && !before.isFile()) throw this.#odd();', '', 'the trail is a regular file'],
      ['position <= after || ', '', 'a page of the trail continues behind the page before'],
      ['event.at >= since && ', 'event.at > since && ', 'events are listed from their time on'],
      ['(account === undefined || event.account === account)', 'true', 'events are listed by account'],
      ['unreadable = endList', 'unreadable: Unreadable = () => {}', 'a line that is no event is told'],
    ],
  ),
  ...mutantsOf(
    'src/accounts/file/unexpected-envelopes.ts',
    ['test/accounts/file/unexpected-envelopes.test.ts'],
    [
      [
        '  await rm(written, { force: true });\n  try {',
        '  try {',
        'a link or a left file is not in the way of the notes',
      ],
      ['      copyRights(model, file.fd);\n', '', 'the notes have the mode of the accounts'],
    ],
  ),
  ...mutantsOf('src/accounts/file/read.ts', read, [
    [
      'if (!isWhole || keys.includes(undefined)) return undefined;',
      'if (keys.includes(undefined)) return undefined;',
      'an account with an unreadable environment is left out',
      'what is unreadable is a problem, and a file with a problem is not used at all',
    ],
    [
      'if (!isWhole || keys.includes(undefined)) return undefined;',
      'if (!isWhole) return undefined;',
      'an account with an unreadable key is left out',
      'what is unreadable is a problem, and a file with a problem is not used at all',
    ],
    [
      '(!isPlaintext && before === undefined)',
      'false',
      'unreadable previous credentials do not turn into plaintext',
      'what is unreadable is a problem, and a file with a problem is not used at all',
    ],
    ['    this.#differ(placed.test, placed.live);\n', '', 'a key of both environments is reported'],
    [
      "this.#once(this.#keyHashes, hash, [...path, key === undefined ? 'sha256' : 'key'], 'key');",
      '',
      'one API key belongs to one account',
    ],
    ["    this.#once(this.#accountIds, id, [...path, 'id'], 'id');\n", '', 'account ids are unique'],
    ["    this.#once(this.#keyIds, id, [...path, 'id'], 'id');\n", '', 'key ids are unique'],
    ['entry.prefix === undefined) {', 'false) {', 'a hash needs its prefix'],
    [
      'key === undefined ? entry.prefix : prefixOf(key)',
      'entry.prefix ?? (key && prefixOf(key))',
      'the key says its prefix',
      'what is unreadable is a problem, and a file with a problem is not used at all',
    ],
    ['const isGiven = enabled || ', 'const isGiven = ', 'enabled encryption has credentials'],
  ]),
  ...mutantsOf('src/accounts/value-types.ts', read, [
    ['/^(?!\\.{1,2}$)[A-Za-z0-9._-]{1,64}$/', '/^[A-Za-z0-9._-]{1,64}$/', '"." and ".." are no ids'],
    ['{1,64}$/', '{1,65}$/', 'an id has at most 64 characters'],
    ['/^\\P{Cc}{1,200}$/u', '/^.{1,200}$/u', 'a name has no control characters'],
    ['/^[0-9a-f]{64}$/', '/^[0-9a-f]{64}/', 'a hash has 64 digits'],
  ]),
];
