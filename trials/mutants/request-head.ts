import { mutantsOf, type Mutant } from './mutant.ts';

/** The guard of a request's head, and routes. */
export const headMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/head-limits.test.ts'],
    [
      ['req.rawHeaders.length > 2 * headers || ', '', 'the fields of a head are bounded'],
      [' || headSize(req) > header', '', 'a head is bounded by its bytes as sent'],
      ['headSize(req) > header', 'headSize(req) > header + 1', 'the bound of a head is exact'],
      ['2 * headers ||', '2 * headers + 2 ||', 'the bound of the fields is exact'],
      [
        'for (const part of rawHeaders) size += part.length + 2;',
        'for (const part of rawHeaders) size += part.length;',
        'separators and line ends count',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/ambiguous-head.test.ts', 'test/gateway/request-head.test.ts'],
    [
      ['if (head.authorization !== undefined) return false;\n', '', 'one Authorization'],
      ["head.host !== '' || ", '', 'one Host'],
      ["isHttp11 ? head.host === '' : ", '!isHttp11 && ', 'HTTP/1.1 has a Host'],
      [' || !acceptableHost.test(value)', '', 'a Host has the form of one'],
      ['head.headers = withoutNominated(head.headers, connection);', '', 'nominated headers end here'],
      [
        'head.plainHeaders = withoutNominated(head.plainHeaders, connection);',
        '',
        'nominated headers of plain traffic end here',
      ],
      [
        'if (acceptableRequestId.test(value)) head.requestId',
        'head.requestId',
        "a client's request id has the form of one",
      ],
      [
        '{1,128}$/;\nconst acceptableHost',
        '{1,129}$/;\nconst acceptableHost',
        'a request id has at most 128 characters',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/cors.test.ts', 'test/gateway/request-framing.test.ts'],
    [
      ['if (head.origin !== undefined) return false;\n', '', 'one Origin'],
      ['if (head.requestedMethod !== undefined) return false;\n', '', 'one Access-Control-Request-Method'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/request-framing.test.ts'],
    [
      ['if (!Number.isSafeInteger(contentLength)) return undefined;\n', '', 'a length is a safe integer'],
      [' : head.body === chunkedBody)', ' : false)', 'HTTP/1.0 has no chunks'],
      [
        "value.toLowerCase() === 'chunked' ? chunkedBody",
        'true ? chunkedBody',
        'other codings than chunked are refused',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    [
      'test/gateway/upgrade-body.test.ts',
      'test/gateway/ignored-upgrade.test.ts',
      'test/gateway/request-framing.test.ts',
    ],
    [
      [
        ' || head.body !== unstatedBody',
        '',
        'the framing is stated once',
        "Node's parser refuses a second one, and a length beside chunks, with an Upgrade or without",
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/upgrade-body.test.ts'],
    [['if (!/upgrade/i.test(head.connection)) head.upgrade = undefined;\n', '', 'an Upgrade is nominated']],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/ambiguous-head.test.ts', 'test/gateway/cors.test.ts'],
    [
      [
        "if (nominated.includes('origin') || nominated.includes('access-control-request-method')) {",
        'if (false) {',
        'a preflight whose headers end here is none',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/request-head.test.ts', 'test/gateway/upstream-headers.test.ts'],
    [
      [
        'head.forwarded.others = withoutNominated(head.forwarded.others, connection);',
        '',
        'nominated headers about the client end here',
      ],
    ],
  ),
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
  ...mutantsOf(
    'src/gateway/router.ts',
    ['test/gateway/router.test.ts'],
    [
      ['this.#root.find(path.toLowerCase(), 1)', 'this.#root.find(path, 1)', 'letter case does not slip past a route'],
      [
        '(end > at ? this.parameter?.find(path, end + 1) : undefined) ??',
        'this.parameter?.find(path, end + 1) ??',
        'a parameter is not empty',
        'the target guard refuses empty segments',
      ],
      ['return this.exact ?? this.below;', 'return this.exact;', '/x/* covers /x'],
      ["if (get !== undefined && !match.has('HEAD')) match.set('HEAD', get);\n", '', 'a route of GET takes HEAD'],
      ['if (route.methods.length === 0) otherwise = matched;\n', '', 'a route without methods takes all'],
      ['      this.below\n    );', '      undefined\n    );', 'a path falls back to the wildcard above'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/header-roles.ts',
    ['test/gateway/request-head.test.ts', 'test/gateway/withheld-headers.test.ts'],
    [
      [
        'if (isOwn(lower) || isDisguised(lower)) return',
        'if (isOwn(lower)) return',
        'a disguised identity header is dropped',
      ],
      [
        'if (isOwn(lower) || isDisguised(lower)) return',
        'if (isDisguised(lower)) return',
        "a client says nothing in the sidecar's name",
      ],
      [
        'x-account-id x-api-key-id x-api-key-kind x-environment http2-settings',
        'x-account-id x-api-key-id x-api-key-kind http2-settings',
        "a client's X-Environment is dropped",
      ],
      [" || dashed.startsWith('x-forwarded-')", '', 'a disguised X-Forwarded header is dropped'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/header-roles.ts',
    ['test/gateway/ambiguous-head.test.ts'],
    [
      [
        "'x-http-method-override x-http-method x-method-override x-original-url x-rewrite-url'",
        "'x-http-method-override x-http-method x-method-override x-original-url'",
        'headers that replace the path are dropped',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/header-roles.ts',
    ['test/gateway/exchange.test.ts'],
    [["lower.startsWith('if-') ? 'plain'", "false ? 'plain'", 'conditions do not go with an envelope']],
  ),
  ...mutantsOf(
    'src/gateway/header-roles.ts',
    ['test/gateway/sealed-response.test.ts'],
    [
      [
        "const byteHeaders = 'etag digest",
        "const byteHeaders = 'digest",
        'the tag of a plain body does not go with its envelope',
      ],
      ["'cache-control expires", "'expires", "the upstream's Cache-Control does not go with an envelope"],
      ['expires last-modified age', 'expires age', 'the date of a plain body does not go with its envelope'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/header-roles.ts',
    ['test/gateway/withheld-headers.test.ts', 'test/gateway/sealed-response.test.ts'],
    [['upgrade x-request-id ${hopByHop}', 'upgrade ${hopByHop}', 'a response has one request id']],
  ),
];
