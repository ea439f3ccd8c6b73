import { mutantsOf, type Mutant } from './mutant.ts';

/** Responses on their way to the client. */
export const responseMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/gateway/sealing-relay.ts',
    ['test/gateway/abort.test.ts', 'test/gateway/decoding.test.ts'],
    [
      ['const maxSealedAtOnce = 65_536;', 'const maxSealedAtOnce = Infinity;', 'large responses are not held'],
      ['      this.reply.call?.pause();\n', '', 'a decoder that is full slows the upstream'],
      [
        'if (this.#upstreamEnded) this.#onPlainEnd(performance.now());\n    else this',
        'if (true) this.#onPlainEnd(performance.now());\n    else this',
        'a response is whole when the upstream ends it',
      ],
      [
        'if (this.reply.refusal !== undefined || this.reply.over) return;\n',
        '',
        'what is unpacked after a refusal is not sent',
        'the decoder has been destroyed: by the failure, or with the response, which a refusal ends in the same turn',
      ],
      [
        '    this.#decoder?.destroy();\n    super',
        '    super',
        'a decoder ends with its response',
        'what it still emits is dropped by the guard in #unlessRefused, and it is destroyed with the response',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/sealing-relay.ts',
    ['test/gateway/sealed-response.test.ts'],
    [
      ["coding !== 'identity'", 'false', 'a compressed response is unpacked before it is sealed'],
      [
        '    if (create === undefined) {\n      this.#fail();\n      return;\n    }\n',
        '    if (create === undefined) return;\n',
        'a coding that is not known is not sealed',
      ],
      [
        ".on('error', () => this.#unlessRefused(() => this.#fail()));",
        ".on('error', () => {});",
        'a response that cannot be unpacked is not sent',
      ],
      ["headers.push('Cache-Control', 'no-store');", '', 'sealed responses are not cached'],
      [
        'this.#decoder === undefined ? this.#head?.contentLength : undefined;',
        'this.#head?.contentLength;',
        'the length of an unpacked response is not stated',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/sealing-relay.ts',
    ['test/gateway/pass-through.test.ts', 'test/gateway/sealed-response.test.ts'],
    [
      [
        '  onInformation(): void {}',
        '  onInformation(status: number, raw: readonly string[]): void { this.reply.raw.writeInformation(status, [...raw]); }',
        'informational responses of an enveloped exchange stay here',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/sealing-relay.ts',
    ['test/gateway/sealed-response.test.ts', 'test/gateway/slots.test.ts'],
    [[' && reservation.hold(contentLength);', ';', 'a response that is held is charged']],
  ),
  ...mutantsOf(
    'src/gateway/sealing-relay.ts',
    ['test/gateway/sealed-response.test.ts', 'test/gateway/abort.test.ts'],
    [
      [
        "    this.reply.call?.abort();\n    this.reply.refuseOrAbort('sealing_failed');",
        "    this.reply.refuseOrAbort('sealing_failed');",
        'the upstream is not read further when sealing fails',
        'the refusal ends the call when it is out',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/response-headers.ts',
    ['test/gateway/sealed-response.test.ts'],
    [["role === 'dropped'", 'false', "the upstream says nothing in the sidecar's name"]],
  ),
  ...mutantsOf(
    'src/gateway/response-headers.ts',
    ['test/gateway/sealed-response.test.ts', 'test/gateway/pass-through.test.ts'],
    [
      ['    headers = withoutNominated(headers, connection);\n', '', 'what the upstream nominates ends here'],
      ["if (status === 204 && lower === 'content-length') continue;\n", '', 'a 204 has no length'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/ignored-upgrade.test.ts'],
    [
      [
        'if (this.request.head?.upgrade !== undefined) this',
        'if (false) this',
        'an ignored Upgrade ends its connection',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/request-body.test.ts'],
    [
      [
        '    this.request.reservation.release();\n    this.request.reservation.leaveSlot();',
        '    this.request.reservation.leaveSlot();',
        'bytes are given back at the end',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/early-response.test.ts'],
    [
      [
        'if (row.closes === true || this.#restUnwanted) this',
        'if (row.closes === true) this',
        'the rest of a large refused body is not read',
      ],
      ['const worthReading = 65_536;', 'const worthReading = 65_535;', 'the rest of a small refused body is read'],
      ['const worthReading = 65_536;', 'const worthReading = 65_537;', 'the rest of a larger refused body is not read'],
      [
        '    reservation.leaveSlot();\n    this.setDeadline(',
        '    this.setDeadline(',
        'a request whose rest is thrown away leaves its slot',
      ],
      [
        '    if (this.request.bodyPending) this.raw.shouldKeepAlive = false;\n',
        '',
        'a response before the end of its request closes the connection',
      ],
      ['      this.request.raw.socket.destroySoon();\n', '', 'the rest of a refused request is read for a while only'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/slots.test.ts'],
    [
      [
        '    this.request.reservation.release();\n    this.request.reservation.leaveSlot();',
        '    this.request.reservation.release();',
        'the slot is given back at the end',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/abort.test.ts'],
    [
      [
        '    this.request.reservation.leaveSlot();\n    this.call?.abort();',
        '    this.request.reservation.leaveSlot();',
        'the upstream request ends with its client',
      ],
      ['if (httpVersionMinor === 0 && ', 'if (false && ', 'a broken response to HTTP/1.0 ends with a reset'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/refusal.test.ts'],
    [
      [
        "head?.method === 'HEAD' ? undefined : body",
        'body',
        'a response to HEAD has no body',
        'Node sends none; only the length that is stated would be there, and it may be',
      ],
      ['row.sealed === true && request.head', 'request.head', 'refusals are sealed as their row says'],
      [
        'const sealer = row.sealed === true && request.head?.method',
        'const sealer = false && request.head?.method',
        'refusals of an encrypting account are sealed',
      ],
      [
        'if (row.closes === true || this.#restUnwanted) this',
        'if (this.#restUnwanted) this',
        'a refusal closes the connection as its row says',
      ],
      [
        '    if (this.refusal !== undefined) return;\n    this.call?.abort();\n    this.refuseOrAbort',
        '    this.call?.abort();\n    this.refuseOrAbort',
        'a request is refused once',
        'refuse() does nothing after a response has begun, and in no other case is a response aborted that is being refused',
      ],
      [
        "if (this.#expiry === 'client_stalled') this.abort();\n    else this",
        'this',
        'the response to a client that does not read is aborted',
        'a response that has begun is aborted by refuseOrAbort, too',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/grace.test.ts'],
    [
      [
        "      this.sealing = { sealer: undefined, inGrace: this.sealing.inGrace, credentials: 'none' };\n",
        '',
        'a plain refusal during a grace says so',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/exchange.test.ts', 'test/gateway/abort.test.ts', 'test/gateway/decoding.test.ts'],
    [
      [
        '      if (!this.begun) {\n        this.refuse(',
        '      if (true) {\n        this.refuse(',
        'a response that has begun is aborted',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/reply.ts',
    ['test/gateway/request-body.test.ts', 'test/gateway/slots.test.ts'],
    [['    request.reservation.release();\n    const row', '    const row', 'a refused request gives its bytes back']],
  ),
  ...mutantsOf(
    'src/gateway/response-relay.ts',
    ['test/gateway/abort.test.ts'],
    [
      ['    source?.pause();\n', '', 'a slow client slows the upstream'],
      ["    this.reply.setDeadline('client_stalled');\n", '', 'a client that does not read has a deadline'],
      ['      source?.resume();\n', '', 'the upstream goes on when the client reads'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/plain-relay.ts',
    ['test/gateway/expectations.test.ts', 'test/gateway/pass-through.test.ts'],
    [
      [
        '    if (this.reply.request.raw.httpVersionMinor === 0) return;\n',
        '',
        'HTTP/1.0 gets no informational responses',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/plain-relay.ts',
    ['test/gateway/pass-through.test.ts'],
    [
      [
        'if (this.#remaining !== undefined) this.#remaining -= chunk.length;\n',
        '',
        'the last piece is told by what is awaited',
        'only the number of writes differs',
      ],
      ['if (!res.writableEnded) res.flushHeaders();', '', 'a stream of events begins at once'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/refusal.ts',
    ['test/gateway/refusal.test.ts'],
    [
      [
        "  const headers = ['Cache-Control', 'no-store'];",
        '  const headers: string[] = [];',
        'refusals are not cached',
      ],
      ["if (row.status === 401) headers.push('WWW-Authenticate', 'Bearer');", '', 'a 401 says how to authenticate'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/refusal.ts',
    ['test/gateway/cors.test.ts', 'test/gateway/refusal.test.ts'],
    [
      [
        "if (allowsCors) headers.push('Access-Control-Allow-Origin', '*');",
        "headers.push('Access-Control-Allow-Origin', '*');",
        'browsers read refusals of open routes only',
      ],
    ],
  ),
];
