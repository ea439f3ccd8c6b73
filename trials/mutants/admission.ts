import { mutantsOf, type Mutant } from './mutant.ts';

const admission = [
  'test/gateway/admission.test.ts',
  'test/gateway/failed-attempts.test.ts',
  'test/gateway/report.test.ts',
];
const head = [
  'test/gateway/ambiguous-head.test.ts',
  'test/gateway/request-head.test.ts',
  'test/gateway/head-limits.test.ts',
];
const places = ['test/gateway/places.test.ts', 'test/gateway/request-body.test.ts'];
const router = ['test/gateway/router.test.ts'];

/** What decides whether a request is let in. */
export const admissionMutants: readonly Mutant[] = [
  ...mutantsOf('src/gateway/authentication.ts', admission, [
    ['key === undefined || !isWellFormed(key)', 'key === undefined', 'a key of another form is not looked up'],
    [
      "if (environmentOf(prefixOf(key)) !== environment) return new Refusal('environment_mismatch');\n",
      '',
      'a live key opens nothing in test',
    ],
    ['holder.key.prefix === prefixOf(key) && ', '', 'a stored prefix that the key does not have is not believed'],
    ['now < expiresAt && ', 'now <= expiresAt && ', 'a key is refused from its expiry on'],
    [' && revokedAt === undefined', '', 'a revoked key is refused'],
    [
      "if (holder === 'unavailable') return new Refusal('accounts_unavailable');",
      "if (holder === 'unavailable') return new Refusal('invalid_api_key');",
      'a good key is not called invalid in an outage',
    ],
    ['/^bearer +(\\S+)$/i', '/bearer +(\\S+)$/i', 'the scheme begins the header'],
    ['/^bearer +(\\S+)$/i', '/^bearer +(\\S+)/i', 'the key ends the header'],
  ]),
  ...mutantsOf(
    'src/gateway/admission.ts',
    [
      'test/gateway/cipher-test.test.ts',
      'test/gateway/cors.test.ts',
      'test/gateway/upgrade-body.test.ts',
      ...admission,
    ],
    [
      [
        "if (head === undefined) return new Refusal(isTooLarge ? 'headers_too_large'",
        "if (head === undefined) return new Refusal(false ? 'headers_too_large'",
        'a head that is too large is named so',
      ],
      [
        "if (environment === undefined) return new Refusal('unknown_host');",
        'if (environment === undefined) throw new Error();',
        'an unknown host is refused',
      ],
      [
        "return holder.account.active ? holder : new Refusal('account_inactive')",
        'return holder',
        'an inactive account is refused',
      ],
      [
        "const isPermitted = kind === 'secret' || ",
        'const isPermitted = true || ',
        'a public key uses only the routes that list it',
      ],
      ["match.outcome === 'method_not_allowed' ? ['method_not_allowed'] : [];", '[];', 'a route has its methods'],
      ['if (holder instanceof Refusal) return holder;\n\n', '', 'a request without a good key goes no further'],
      [
        'if (rules.report.has(code)) request.reported.push(code);\n      else return',
        'if (true) request.reported.push(code);\n      else return',
        'a refusal is only reported if the configuration says so',
      ],
      [
        'head.authorization === undefined ? undefined : await this.#identify',
        'true ? undefined : await this.#identify',
        'a key that is sent to a test endpoint is checked',
      ],
      [
        'environment.cipherTest ? cipherTestOf(head.path) : undefined',
        'cipherTestOf(head.path)',
        'the test endpoints are where the configuration has them',
      ],
      [
        "if (head.method !== 'OPTIONS' || head.origin === undefined || head.requestedMethod === undefined) return false;",
        "if (head.method !== 'OPTIONS') return false;",
        'only a preflight needs no key',
      ],
      ["  if (head.body.kind !== 'none') return false;\n", '', 'a preflight has no body'],
      [
        "(match.outcome === 'matched' && match.route.keys.includes('public'));\n}\n",
        'true;\n}\n',
        'only a preflight for what a public key may do needs no key',
      ],
      [
        "if (match.outcome === 'method_not_allowed' && !report.has('method_not_allowed')) return false;",
        '',
        'a preflight asks for a method of the route',
        'the next line refuses it: its route did not match',
      ],
      [
        "head.body.kind !== 'none' &&\n      asksForWebSocket(head.upgrade) &&",
        'false &&',
        'an upgrade with a body is refused',
      ],
      ['if (retryAfter !== undefined) return new Refusal(', 'if (false) return new Refusal(', 'guesses are limited'],
      [
        'this.#guesses.failed(clientOf(request, head), request.rules.limits.failedKeys.window, request.stats.startedAt);',
        '',
        'guesses are counted',
      ],
      ["if (methods.has('GET')) methods.add('HEAD');\n", '', 'Allow names HEAD beside GET'],
      [
        'if (enveloped && encryption !== undefined) reply.seal(',
        'if (false) reply.seal(',
        'refusals of an encrypting account are sealed',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/failure-limiter.ts',
    ['test/gateway/failure-limiter.test.ts'],
    [
      ['const remembered = 10_000;', 'const remembered = 10_001;', 'the limiter remembers so many subjects'],
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
    'src/gateway/look-ups.ts',
    ['test/gateway/places.test.ts'],
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
      ["if (this.#queue.length >= this.#limit) return 'unavailable';\n", '', 'guesses that wait are bounded'],
      [
        'if (next === undefined) this.#suspectPending -= 1;\n      else next();',
        'next?.();',
        'a guess that is over hands its turn on',
      ],
    ],
  ),
  ...mutantsOf('src/gateway/budgets.ts', places, [
    ['this.used + amount > this.#size || ', '', 'all shares together are bounded'],
    [' || this.#used[by] + amount > this.#shares[by]', '', 'requests without a secret key have a share'],
    [
      'this.used + amount > this.#size',
      'this.used + amount > this.#size + 1',
      'the budget is what the configuration says',
    ],
    ['Math.floor(size / 8)', 'Math.floor(size / 2)', 'keyless requests have an eighth'],
    ['Math.floor(size / 2)', 'size', 'public keys have a half'],
    ['    this.#used[by] -= amount;\n', '', 'what was taken is given back'],
    ['    this.#slotOf = undefined;\n', '', 'a slot is given back once'],
    ['    this.#bytes = 0;\n', '', 'bytes are given back once'],
    ['if (this.#slotOf !== undefined) return true;\n', '', 'a request takes one slot'],
    ['    this.#size = size;\n', '    this.#size += size;\n', 'a reload sets the size of a budget'],
    [
      'this.#bytesOf ??= this.#claimant',
      'this.#bytesOf = this.#claimant',
      'bytes are given back to whom they were taken from',
    ],
    ['    this.#connection.rest();\n', '', 'a connection without work may be closed for another'],
    ['    this.#connection.known = true;\n', '', 'a connection with a known key is not closed for another'],
  ]),
  ...mutantsOf('src/gateway/budgets.ts', places, [
    [
      'this.bytes.resize(buffered, requestBody);',
      'this.bytes.resize(buffered, 0);',
      'every share has room for one body',
    ],
    ['this.slots.resize(inFlight, 1);', 'this.slots.resize(inFlight, 0);', 'every share has one slot'],
  ]),
  ...mutantsOf('src/gateway/request-head.ts', head, [
    ['req.rawHeaders.length > 2 * headers || ', '', 'the fields of a head are bounded'],
    [' || headSize(req) > header', '', 'a head is bounded by its bytes as sent'],
    ['headSize(req) > header', 'headSize(req) > header + 1', 'the bound of a head is exact'],
    ['2 * headers ||', '2 * headers + 2 ||', 'the bound of the fields is exact'],
    [
      'for (const part of rawHeaders) size += part.length + 2;',
      'for (const part of rawHeaders) size += part.length;',
      'separators and line ends count',
    ],
    ['if (head.authorization !== undefined) return undefined;\n', '', 'one Authorization'],
    ['if (!Number.isSafeInteger(contentLength)) return undefined;\n', '', 'a length is a safe integer'],
    [
      "!isHttp11 || value.toLowerCase() !== 'chunked') return",
      "value.toLowerCase() !== 'chunked') return",
      'HTTP/1.0 has no chunks',
    ],
    [" || value.toLowerCase() !== 'chunked') return", ') return', 'other codings than chunked are refused'],
    ['if (head.body !== noBody || !isHttp11', 'if (!isHttp11', 'one Transfer-Encoding'],
    ['if (head.origin !== undefined) return undefined;\n', '', 'one Origin'],
    ['if (head.requestedMethod !== undefined) return undefined;\n', '', 'one Access-Control-Request-Method'],
    ['if (hosts > 1 || (hosts === 0', 'if ((hosts === 0', 'one Host'],
    ['(hosts === 0 && isHttp11) || ', '', 'HTTP/1.1 has a Host'],
    [' || (hosts === 1 && !acceptableHost.test(head.host))', '', 'a Host has the form of one'],
    ['if (head.body !== noBody) return undefined;\n', '', 'a length and chunks are not taken together'],
    ['if (!/upgrade/i.test(connection)) head.upgrade = undefined;\n', '', 'an Upgrade is nominated'],
    [
      "if (nominated.includes('origin') || nominated.includes('access-control-request-method')) {",
      'if (false) {',
      'a preflight whose headers end here is none',
    ],
    ['head.headers = withoutNominated(head.headers, connection);', '', 'nominated headers end here'],
    [
      'head.plainHeaders = withoutNominated(head.plainHeaders, connection);',
      '',
      'nominated headers of plain traffic end here',
    ],
    [
      'head.forwarded.others = withoutNominated(head.forwarded.others, connection);',
      '',
      'nominated headers about the client end here',
    ],
    [
      'if (acceptableRequestId.test(value)) head.requestId',
      'head.requestId',
      "a client's request id has the form of one",
    ],
    ['{1,128}$/;\nconst acceptableHost', '{1,129}$/;\nconst acceptableHost', 'a request id has at most 128 characters'],
  ]),
  ...mutantsOf(
    'src/gateway/target.ts',
    ['test/gateway/target.test.ts'],
    [
      [
        'if (mark !== -1 && !plainQuery.test(target.slice(mark + 1))) return undefined;\n',
        '',
        'a query has one reading',
      ],
      ['if (!plainPath.test(path)) return undefined;\n', '', 'a path has one reading'],
      ['if (ambiguousOctet.test(path)) return false;\n', '', 'nothing is encoded that need not be'],
      ['    decodeURIComponent(path);\n', '', 'percent-encodings are UTF-8'],
      ['2[5def]', '2[5de]', 'an encoded slash is refused'],
      ['5[0-9acf]', '5[0-9af]', 'an encoded backslash is refused'],
      ['[01][0-9a-f]|', '1[0-9a-f]|', 'an encoded NUL is refused'],
      ['/^\\/(?:(?!\\.\\.?(?:\\/|$))', '/^\\/(?:', 'dot segments are refused'],
    ],
  ),
  ...mutantsOf('src/gateway/router.ts', router, [
    ['this.#root.find(path.toLowerCase(), 1)', 'this.#root.find(path, 1)', 'letter case does not slip past a route'],
    [
      '(end > at ? this.parameter?.find(path, end + 1) : undefined) ??',
      'this.parameter?.find(path, end + 1) ??',
      'a parameter is not empty',
      'the target guard refuses empty segments',
    ],
    [
      'this.#exact = this.exact.length === 0 ? this.#below : pathRoutes(this.exact);',
      'this.#exact = this.exact.length === 0 ? undefined : pathRoutes(this.exact);',
      '/x/* covers /x',
    ],
    ["if (get !== undefined && !match.has('HEAD')) match.set('HEAD', get);\n", '', 'a route of GET takes HEAD'],
    ['if (route.methods.length === 0) otherwise = matched;\n', '', 'a route without methods takes all'],
    ['      this.#below\n    );', '      undefined\n    );', 'a path falls back to the wildcard above'],
  ]),
  ...mutantsOf(
    'src/gateway/rules.ts',
    ['test/gateway/client-address.test.ts', 'test/gateway/admission.test.ts', 'test/gateway/upstream-headers.test.ts'],
    [
      ['?? false;\n  }', '?? true;\n  }', 'without trusted proxies no peer is believed'],
      ["host.toLowerCase().replace(/:\\d+$/, '')", "host.replace(/:\\d+$/, '')", 'a host is known in any letter case'],
      ["host.toLowerCase().replace(/:\\d+$/, '')", 'host.toLowerCase()', 'a host is known with a port'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/client-address.ts',
    ['test/gateway/client-address.test.ts'],
    [
      [
        "if (!request.rules.trusts(peer)) return subject(peer) ?? '';\n",
        '',
        'a peer that is not trusted is the client',
      ],
      ['hops.findLast(', 'hops.find(', 'the last hop that is not trusted is the client'],
      ['groups.slice(0, 4)', 'groups.slice(0, 5)', 'an IPv6 network of 64 bits is one client'],
      ['if (mapped !== undefined) return mapped;\n', '', 'a mapped IPv4 address is one of IPv4'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/header-roles.ts',
    ['test/gateway/request-head.test.ts', 'test/gateway/withheld-headers.test.ts'],
    [
      [
        "(isOwn(lower) || isDisguised(lower) ? 'dropped' : undefined)",
        "(isOwn(lower) ? 'dropped' : undefined)",
        'a disguised identity header is dropped',
      ],
      [
        "(isOwn(lower) || isDisguised(lower) ? 'dropped'",
        "(isDisguised(lower) ? 'dropped'",
        "a client says nothing in the sidecar's name",
      ],
      [
        "'x-account-id x-api-key-id x-api-key-kind x-environment '",
        "'x-account-id x-api-key-id x-api-key-kind '",
        "a client's X-Environment is dropped",
      ],
      [
        "'x-http-method-override x-http-method x-method-override x-original-url x-rewrite-url'",
        "'x-http-method-override x-http-method x-method-override x-original-url'",
        'headers that replace the path are dropped',
      ],
      ["lower.startsWith('if-') ? 'plain'", "false ? 'plain'", 'conditions do not go with an envelope'],
      [" || dashed.startsWith('x-forwarded-')", '', 'a disguised X-Forwarded header is dropped'],
    ],
  ),
];
