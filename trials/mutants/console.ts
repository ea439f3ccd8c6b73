import { mutantsOf, type Change, type Mutant } from './mutant.ts';

/** Members of the page's policy and headers that each go by themselves. */
const policy = [
  `  "default-src 'none'",\n`,
  `  "script-src 'self'",\n`,
  `  "style-src 'self'",\n`,
  `  "connect-src 'self'",\n`,
  `  "img-src 'self' data:",\n`,
  `  "form-action 'self'",\n`,
  `  "frame-ancestors 'none'",\n`,
  `  "base-uri 'none'",\n`,
  `  'Content-Security-Policy': policy,\n`,
  `  'X-Content-Type-Options': 'nosniff',\n`,
  `  'Referrer-Policy': 'no-referrer',\n`,
  `  'Cross-Origin-Opener-Policy': 'same-origin',\n`,
  `  'Cross-Origin-Resource-Policy': 'same-origin',\n`,
].map((line): Change => [line, '', `the page is served with ${line.trim()}`]);

/** The console's sessions, its cookie, and who may use them. */
export const consoleMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/operators/console.ts',
    ['test/operators/console.test.ts'],
    [
      ...policy,
      ['httpOnly: true, ', '', 'no script reads the cookie'],
      ["sameSite: 'strict', ", '', 'no other site sends the cookie'],
      ['secure, expires', 'expires', 'with TLS the cookie never goes over plain HTTP'],
      ["path: '/', ", '', 'the API under another path gets the cookie'],
      ["'__Host-' : ''", "'' : ''", 'no other host of the domain sets the cookie'],
      ["'__Host-' : ''", "'__Host-' : '__Host-'", 'over plain loopback the browser keeps the cookie'],
      ['${port}`', '`', 'sidecars behind ports of one machine have cookies of their own'],
      [', expires });', ' });', 'the cookie goes with its session'],
      [
        "if (!this.#dependencies.state().console) throw new ApiProblem('not_found', 'The console is off.');",
        '',
        'the console can be switched off',
      ],
      ['!console || ', '', 'sessions are over when the console is switched off'],
      [
        ' || !isFromOwnPage(request.method, request.headers, this.#dependencies.secure)',
        '',
        'a cookie that another site’s page sent does not count',
      ],
      [
        "{ config: { operation: 'sign_in' }, onRequest }",
        "{ config: { operation: 'sign_in' } }",
        'only the page signs in',
      ],
      [
        "{ config: { operation: 'sign_out' }, onRequest }",
        "{ config: { operation: 'sign_out' } }",
        'only the page signs out',
      ],
      [
        'this.#sessions.end(this.#idOf(request));\n      this.#setCookie',
        'this.#setCookie',
        'sign-out ends the session, not only its cookie',
      ],
      ["this.#setCookie(request, reply, '', new Date(0));", '', 'sign-out takes the cookie away'],
      ['cacheControl: false, ', '', 'the page is not cached'],
      ['etag: false, ', '', 'the page is not cached by its tag'],
      [
        '      this.#sessions.end(this.#idOf(request));\n      const',
        '      const',
        'the session before a new sign-in ends',
      ],
      ['lastModified: false', '', 'the page is not cached by its date'],
      ['`${url}/`.startsWith(consoleRoot)', "url.startsWith('/')", 'only the console’s own paths need no token'],
    ],
  ),
  ...mutantsOf(
    'src/operators/sessions.ts',
    ['test/operators/console.test.ts'],
    [
      [' || session.expiresAt <= this.#clock()', '', 'a session expires'],
      [
        'session.expiresAt <= this.#clock()',
        'session.expiresAt < this.#clock()',
        'it expires at its time, not after it',
      ],
      ['sessionLength = 8 *', 'sessionLength = 9 *', 'a session lasts eight hours'],
      ['hash === session.tokenHash', 'hash !== undefined', 'a session ends with its token'],
      [
        "if (own.length >= maxOfToken) this.#sessions.delete(own[0]?.[0] ?? '');",
        '',
        'the number of sessions of a token is bounded',
      ],
      ['randomBytes(32)', 'randomBytes(8)', 'the id of a session cannot be guessed'],
      ['this.#sessions.delete(sha256Hex(id))', 'this.#sessions.clear()', 'sign-out ends no other session'],
    ],
  ),
  ...mutantsOf(
    'src/operators/origin.ts',
    ['test/operators/console.test.ts'],
    [
      [
        "return site === 'same-origin';",
        "return site !== 'cross-site';",
        'a sibling’s page and a navigation do not count',
      ],
      [
        "if (site !== undefined) return site === 'same-origin';",
        "if (site === 'same-origin') return true;",
        'what the browser says of the site counts before the origin',
      ],
      ['headers.origin === `', 'headers.origin !== `null` || headers.origin === `', 'the origin is the listener’s own'],
      ["'https' : 'http'", "'http' : 'http'", 'with TLS the origin is https'],
      ["return method === 'GET';", 'return true;', 'a change without either header does not count'],
    ],
  ),
  ...mutantsOf(
    'src/operators/listener.ts',
    ['test/operators/console.test.ts'],
    [
      [", 'Cache-Control': 'no-store'", '', 'nothing of the listener is cached'],
      [
        'authorization === undefined ? console.tokenOf(request) : findToken(authorization, tokens)',
        'findToken(authorization, tokens) ?? console.tokenOf(request)',
        'no cookie helps a wrong token',
      ],
      [
        "!isKnownHost(request.raw.headersDistinct['host'], hosts)",
        'false',
        'a foreign name does not reach the listener',
      ],
    ],
  ),
  ...mutantsOf(
    'src/operators/origin.ts',
    ['test/operators/listener.test.ts'],
    [
      [' || others.length > 0', '', 'two Host headers are refused'],
      ['isIP(v6) === 6', 'true', 'brackets hold an IPv6 address'],
      ['isIP(name) === 4', 'isIP(name) !== 0 || /^[0-9]/.test(name)', 'only a whole IPv4 address counts'],
      ['names.includes(name)', 'names.some((known) => name.endsWith(known))', 'a name is compared in whole'],
    ],
  ),
];
