import { mutantsOf, type Mutant } from './mutant.ts';

/** Code that decides whether a request is admitted. */
export const admissionMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/gateway/authentication.ts',
    ['test/gateway/admission.test.ts'],
    [
      ['key !== undefined && isWellFormed(key)', 'key !== undefined', 'a key of another form is not looked up'],
      ['environmentOf(prefixOf(key)) === environment ? key :', 'true ? key :', 'a live key opens nothing in test'],
      ['found.key.prefix === prefixOf(key) && ', '', 'a stored prefix that the key does not have is not believed'],
    ],
  ),
  ...mutantsOf(
    'src/http.ts',
    ['test/gateway/admission.test.ts'],
    [
      ['/^bearer +(\\S+)$/i', '/bearer +(\\S+)$/i', 'the scheme begins the header'],
      ['/^bearer +(\\S+)$/i', '/^bearer +(\\S+)/i', 'the key ends the header'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/authentication.ts',
    ['test/gateway/refusal.test.ts'],
    [
      [
        "if (found === 'unavailable') return new Refusal('accounts_unavailable');",
        "if (found === 'unavailable') return new Refusal('invalid_api_key');",
        'a good key is not called invalid in an outage',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/admission.test.ts'],
    [
      [
        "if (environment === undefined) return new Refusal('unknown_host');",
        'if (environment === undefined) throw new Error();',
        'an unknown host is refused',
      ],
      ["if (!holder.account.active) return new Refusal('account_inactive');\n", '', 'an inactive account is refused'],
      [
        "const isPermitted = kind === 'secret' || ",
        'const isPermitted = true || ',
        'a public key uses only the routes that list it',
      ],
      ["match.outcome === 'method_not_allowed' ? ['method_not_allowed'] : [];", '[];', 'a route has its methods'],
      [
        'if (key instanceof Refusal) return key;',
        'if (key instanceof Refusal) return admitted;',
        'a request without a good key goes no further',
      ],
      [
        "if (match.outcome === 'method_not_allowed' && !report.has('method_not_allowed')) return false;",
        '',
        'a preflight asks for a method of the route',
        'the next line refuses it: its route did not match',
      ],
      ["if (methods.has('GET')) methods.add('HEAD');\n", '', 'Allow names HEAD beside GET'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request.ts',
    ['test/gateway/admission.test.ts', 'test/gateway/report.test.ts'],
    [
      [
        'if (!this.rules.report.has(code)) return false;\n',
        '',
        'a refusal is only reported if the configuration says so',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/cipher-test.test.ts'],
    [
      [
        'isOpenPreflight(head, rules) : head.authorization === undefined;',
        'isOpenPreflight(head, rules) : true;',
        'a key that is sent to a test endpoint is checked',
      ],
      [
        'environment.cipherTest ? cipherTestOf(head.path) : undefined',
        'cipherTestOf(head.path)',
        'the test endpoints are where the configuration has them',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/cors.test.ts'],
    [
      [
        "if (head.method !== 'OPTIONS' || head.origin === undefined || head.requestedMethod === undefined) return false;",
        "if (head.method !== 'OPTIONS') return false;",
        'only a preflight needs no key',
      ],
      [
        "(match.outcome === 'matched' && match.route.keys.includes('public'));\n}\n",
        'true;\n}\n',
        'only a preflight for what a public key may do needs no key',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/cors.test.ts', 'test/gateway/request-framing.test.ts'],
    [["  if (head.body.type !== 'none') return false;\n", '', 'a preflight has no body']],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/upgrade-body.test.ts'],
    [
      [
        "if (head.method === 'GET' && hasBody && asksForWebSocket",
        'if (false && asksForWebSocket',
        'an upgrade with a body is refused',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/failed-attempts.test.ts'],
    [
      ['if (retryAfter !== undefined) return new Refusal(', 'if (false) return new Refusal(', 'guesses are limited'],
      ['this.#guesses.failed(clientOf(request), window, request.stats.startedAt);', '', 'guesses are counted'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/admission.ts',
    ['test/gateway/refusal.test.ts'],
    [
      [
        'if (enveloped && encryption !== undefined) reply.sealing =',
        'if (false) reply.sealing =',
        'refusals of an encrypting account are sealed',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/look-ups.ts',
    ['test/gateway/slots.test.ts'],
    [
      [
        'if (directory.holds(hash)) return directory.find(hash);\n',
        '',
        'a key that is held is found whatever guesses do',
      ],
      [
        'return isSuspect() ? this.#findForSuspect(directory, hash) : this.#ask(directory, hash);',
        'return this.#ask(directory, hash);',
        'guesses compete for a few look-ups',
      ],
      ["if (this.#pending >= this.#limit) return 'unavailable';\n", '', 'look-ups are bounded'],
      ['      this.#pending -= 1;\n', '', 'a look-up that is over counts no more'],
      [
        'if (next === undefined) this.#suspectPending -= 1;\n      else next();',
        'next?.();',
        'a guess that is over hands its turn on',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/look-ups.ts',
    ['test/gateway/limits.test.ts'],
    [["if (this.#queue.length >= this.#limit) return 'unavailable';\n", '', 'guesses that wait are bounded']],
  ),
  ...mutantsOf(
    'src/gateway/limits.ts',
    ['test/gateway/failure-limiter.test.ts'],
    [
      ['const remembered = 10_000;', 'const remembered = 10_001;', 'the limiter remembers this many subjects'],
      ['failures.count < limit', 'failures.count <= limit', 'the limit is the number of failures that are answered'],
      ['now >= failures.until || failures.count', 'now > failures.until || failures.count', 'a window ends at its end'],
      ['else failures.count += 1;', '', 'failures add up'],
      [
        'if (failures === undefined || now >= failures.until) this.#failures.set',
        'if (failures === undefined) this.#failures.set',
        'a new window begins after the one before',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/limits.ts',
    ['test/gateway/limits.test.ts'],
    [
      ['this.used + amount > this.#parts.secret || ', '', 'all shares together are bounded'],
      [
        'this.used + amount > this.#parts.secret',
        'this.used + amount > this.#parts.secret + 1',
        'the budget is what the configuration says',
      ],
      ['    this.#slotOf = undefined;\n', '', 'a slot is given back once'],
      ['if (this.#slotOf !== undefined) return true;\n', '', 'a request takes one slot'],
      ['      secret: size,\n', '      secret: this.#parts.secret + size,\n', 'a reload sets the size of a budget'],
      [
        'this.#bytesOf ??= this.#claimant',
        'this.#bytesOf = this.#claimant',
        'bytes are given back to whom they were taken from',
      ],
      ['    this.#connection.allowEviction();\n', '', 'a connection without work may be evicted'],
      [
        "    this.#connection.identify(claimant === 'secret');\n",
        '',
        'a connection with a known key is not closed for another',
      ],
      [
        'this.bytes.resize(buffered, requestBody);',
        'this.bytes.resize(buffered, 0);',
        'every share has room for one body',
      ],
      ['this.slots.resize(inFlight, 1);', 'this.slots.resize(inFlight, 0);', 'every share has one slot'],
      ['    this.#bytes -= released;\n', '', 'bytes are given back once'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/limits.ts',
    ['test/gateway/slots.test.ts'],
    [
      ['this.#used[by] + amount > this.#parts[by]', 'false', 'requests without a secret key have a share'],
      ['Math.floor(size / 8)', 'Math.floor(size / 2)', 'keyless requests have an eighth'],
      ['Math.floor(size / 2)', 'size', 'public keys have a half'],
      ['    this.#used[by] -= amount;\n', '', 'what was taken is given back'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/rules.ts',
    ['test/gateway/upstream-headers.test.ts', 'test/gateway/client-address.test.ts'],
    [['?? false;\n  }', '?? true;\n  }', 'without trusted proxies no peer is believed']],
  ),
  ...mutantsOf(
    'src/gateway/rules.ts',
    ['test/gateway/admission.test.ts'],
    [
      ["host.toLowerCase().replace(/:\\d+$/, '')", "host.replace(/:\\d+$/, '')", 'a host is known in any letter case'],
      ["host.toLowerCase().replace(/:\\d+$/, '')", 'host.toLowerCase()', 'a host is known with a port'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/client-address.ts',
    ['test/gateway/client-address.test.ts'],
    [
      ["if (!rules.trusts(peer)) return subject(peer) ?? '';\n", '', 'a peer that is not trusted is the client'],
      ['hops.findLast(', 'hops.find(', 'the last hop that is not trusted is the client'],
      ['groups.slice(0, 4)', 'groups.slice(0, 5)', 'an IPv6 network of 64 bits is one client'],
      ['if (mapped !== undefined) return mapped;\n', '', 'a mapped IPv4 address is one of IPv4'],
    ],
  ),
];
