import { mutantsOf, type Mutant } from './mutant.ts';

const exchange = [
  'test/gateway/exchange.test.ts',
  'test/gateway/grace.test.ts',
  'test/gateway/failed-attempts.test.ts',
];
const sealed = [
  'test/gateway/sealed-response.test.ts',
  'test/gateway/withheld-headers.test.ts',
  'test/gateway/places.test.ts',
];
const body = [
  'test/gateway/request-body.test.ts',
  'test/gateway/places.test.ts',
  'test/gateway/encryption-not-supported.test.ts',
  'test/gateway/pass-through.test.ts',
];
const reply = [
  'test/gateway/refusal.test.ts',
  'test/gateway/abort.test.ts',
  'test/gateway/request-body.test.ts',
  'test/gateway/linger.test.ts',
  'test/gateway/exchange.test.ts',
  'test/gateway/places.test.ts',
];
const connections = [
  'test/gateway/connections.test.ts',
  'test/gateway/pipelined.test.ts',
  'test/gateway/idle-connections.test.ts',
];

/** What happens to a request that was let in. */
export const gatewayMutants: readonly Mutant[] = [
  ...mutantsOf('src/gateway/exchange.ts', exchange, [
    [
      "if (isEncoded(head)) return new Refusal('unsupported_content_encoding');\n",
      '',
      'a compressed envelope is refused as such',
    ],
    [
      'if (takesPlaintext(encryption) && !hasEnvelopeShape(sent)) {',
      'if (takesPlaintext(encryption)) {',
      'an envelope is opened though plaintext is accepted',
    ],
    [
      'if (takesPlaintext(encryption) && !hasEnvelopeShape(sent)) {',
      'if (!hasEnvelopeShape(sent)) {',
      'plaintext is not accepted without a grace',
    ],
    ["environment.name === 'live' ? holder?.key.id : undefined", 'undefined', 'failed decryptions are limited in live'],
    [
      "environment.name === 'live' ? holder?.key.id : undefined",
      'holder?.key.id',
      'failed decryptions are not limited in test',
    ],
    [
      'if (subject !== undefined) openFailures.failed(subject, failedKeys.window, before);\n',
      '',
      'failed decryptions are counted',
    ],
    [
      "environment.name === 'test' ? { hint: hintForBody(sent, opened.code) } : {}",
      '{ hint: hintForBody(sent, opened.code) }',
      'no hint leaves live',
    ],
    ["    headers.push('Accept-Encoding', 'identity');\n", '', 'the upstream is asked not to compress what is sealed'],
    [
      'sealer === undefined ? new PlainResponse(reply) :',
      'true ? new PlainResponse(reply) :',
      'the response of an enveloped exchange is sealed',
    ],
    ['reply.seal(sealingWith(opened.openedBy, encryption));', '', 'a response is sealed with what opened the request'],
    [
      'if (sent instanceof Refusal) return sent;',
      'if (sent instanceof Refusal) return undefined;',
      'a body that is refused is answered',
    ],
  ]),
  ...mutantsOf('src/gateway/sealing.ts', exchange, [
    ['now < encryption.until ? {', 'now <= encryption.until ? {', 'a disabled grace is over at its end'],
    [
      'grace !== undefined && now < grace.until ? grace',
      'grace !== undefined && now <= grace.until ? grace',
      'a grace is over at its end',
    ],
    ['grace !== undefined && now < grace.until ? grace : undefined', 'grace', 'a grace ends'],
    [
      'return grace !== undefined && (current === undefined || grace.previous === undefined);',
      'return grace !== undefined;',
      'a grace with credentials accepts no plaintext',
    ],
    [
      'return grace !== undefined && (current === undefined || grace.previous === undefined);',
      'return grace !== undefined && grace.previous === undefined;',
      'disabled encryption accepts plaintext',
    ],
    ["head.credentialsWish?.toLowerCase() === 'current'", 'false', 'a caller may ask for the current credentials'],
    ['[current, grace?.previous]', '[current]', 'a grace opens with the previous credentials'],
    [
      '[current, grace?.previous]',
      '[grace?.previous, current]',
      'the current credentials are tried first',
      'each opens what the other does not, but for one chance in 2^16 or so',
    ],
  ]),
  ...mutantsOf('src/gateway/request-body.ts', body, [
    [
      "if ((head.body.contentLength ?? 0) > limit) return new Refusal('body_too_large');\n",
      '',
      'a body that is stated too large is refused at once',
    ],
    ['if (length > limit || !goOn', 'if (!goOn', 'a body in chunks is bounded'],
    ['if (length > limit || !goOn', 'if (length >= limit || !goOn', 'the bound of a body is exact'],
    [
      '(head.body.contentLength ?? 0) > limit',
      '(head.body.contentLength ?? 0) >= limit',
      'the bound of a stated body is exact',
    ],
    ['const leastHeld = 512;', 'const leastHeld = 0;', 'a small chunk is charged for what it takes'],
    ["        stop(new Refusal('overloaded'));\n        return;\n", '', 'what the budget does not have is refused'],
    ["head.contentEncoding.toLowerCase() !== 'identity'", 'true', 'identity is no coding'],
    [
      'if (result instanceof Refusal || !result.whole) raw.pause();\n',
      '',
      'the rest of a refused body is not read into memory',
    ],
    [
      'if (this.#sink?.write(chunk) === false) this.#waitForUpstream();',
      'this.#sink?.write(chunk);',
      'a slow upstream slows the client',
    ],
    ['    this.#reply.request.reservation.release();\n', '', 'what was looked at is charged no more once it is sent'],
    [
      "    this.#reply.request.raw.off('data', this.#onData).off('end', this.#onEnd);\n    this.#sink = undefined;",
      '',
      'a body that is not wanted is not sent on',
    ],
    [
      'const limit = Math.min(most, reply.request.rules.limits.requestBody);',
      'const limit = reply.request.rules.limits.requestBody;',
      'the test endpoints take 64 KiB',
    ],
  ]),
  ...mutantsOf('src/gateway/pass-through.ts', body, [
    [
      "if (!isLookedAt && !reservation.takeSlot()) return new Refusal('overloaded');\n",
      '',
      'a streamed request takes a slot',
    ],
    [
      "      if (!reservation.takeSlot()) return new Refusal('overloaded');\n    }",
      '    }',
      'a request that was looked at takes a slot',
      'it takes one when it is sent; here it is only earlier',
    ],
    ['if (isEnvelope(whole)) {', 'if (false) {', 'an envelope does not reach an upstream that expects plaintext'],
    [
      '!isEncoded(head) && (head.body.contentLength ?? 0) <= requestBody',
      '!isEncoded(head)',
      'a body that is stated large is not looked at',
    ],
    ['return index > 0 || mayBeJsonObject(chunk);', 'return true;', 'a body that is no JSON object is not held'],
    ['      if (reply.begun) return undefined;\n', '', 'a request that was refused meanwhile is not sent'],
  ]),
  ...mutantsOf(
    'src/gateway/cipher-test.ts',
    ['test/gateway/cipher-test.test.ts', 'test/gateway/places.test.ts'],
    [
      [
        "if (head.method !== 'POST') return new Refusal('method_not_allowed', { allow: 'POST' });\n",
        '',
        'the test endpoints take POST',
      ],
      ['const mostBytes = 65_536;', 'const mostBytes = 65_537;', 'the test endpoints take 64 KiB at most'],
      [
        "reservation.takeSlot('keyless')",
        'reservation.takeSlot()',
        'the test endpoints use the share of keyless requests',
      ],
      [
        "if (isEncoded(head)) return new Refusal('unsupported_content_encoding');\n",
        '',
        'the test endpoints refuse compressed bodies',
      ],
      [
        'if (!decrypted.paddingOk || !isJson(decrypted.plaintext)) {',
        'if (!isJson(decrypted.plaintext)) {',
        'the test endpoints refuse bad padding',
      ],
      ["'Cache-Control', 'no-store'], result", '], result', 'results of the test endpoints are not cached'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/pass-upgrade.ts',
    ['test/upstream/upgrade.test.ts', 'test/gateway/upgrade-body.test.ts', 'test/gateway/ignored-upgrade.test.ts'],
    [
      ["if (!request.reservation.takeSlot()) return new Refusal('overloaded');\n", '', 'a WebSocket takes a slot'],
      ["headers['transfer-encoding'] === undefined && ", '', 'a WebSocket handshake has no chunks'],
      [" && /^0*$/.test(headers['content-length'] ?? '')", '', 'a WebSocket handshake has no body'],
      [
        " || method !== 'GET' || httpVersionMinor === 0) return false",
        ' || httpVersionMinor === 0) return false',
        'a WebSocket begins with GET',
      ],
      ['readResponseHead(101, raw).headers];', 'raw];', 'a 101 carries nothing that only the sidecar may say'],
      [
        "response.on('error', () => relay.onFailure({ code: 'upstream_unavailable', cause: 'ECONNRESET' }));",
        "response.on('error', () => {});",
        'a response to an upgrade that breaks off is broken off',
      ],
    ],
  ),
  ...mutantsOf('src/gateway/sealed-response.ts', sealed, [
    ['const inOnePiece = 65_536;', 'const inOnePiece = Infinity;', 'large responses are not held'],
    [' && request.reservation.hold(contentLength);', ';', 'a response that is held is charged'],
    ["coding !== 'identity'", 'false', 'a compressed response is unpacked before it is sealed'],
    [
      '    if (create === undefined) {\n      this.#fail();\n      return;\n    }\n',
      '    if (create === undefined) return;\n',
      'a coding that is not known is not sealed',
    ],
    [
      'if (this.#upstreamEnded) this.#onPlainEnd();\n    else this',
      'if (true) this.#onPlainEnd();\n    else this',
      'a response is whole when the upstream ends it',
    ],
    [
      'if (this.reply.refusal !== undefined || this.reply.over) return;\n',
      '',
      'what is unpacked after a refusal is not sent',
    ],
    ['    this.#decoder?.destroy();\n    super', '    super', 'a decoder ends with its response'],
    [
      ".on('error', () => this.#unlessRefused(() => this.#fail()));",
      ".on('error', () => {});",
      'a response that cannot be unpacked is not sent',
    ],
    ["'Cache-Control', 'no-store'];", '];', 'sealed responses are not cached'],
    [
      'this.#decoder === undefined ? this.#head?.contentLength : undefined;',
      'this.#head?.contentLength;',
      'the length of an unpacked response is not stated',
    ],
    [
      "    this.reply.call?.abort();\n    this.reply.giveUp('sealing_failed');",
      "    this.reply.giveUp('sealing_failed');",
      'the upstream is not read further when sealing fails',
    ],
    [
      'override onInformation(): void {}',
      'override onInformation(status: number, raw: readonly string[]): void { this.reply.raw.writeInformation(status, [...raw]); }',
      'informational responses of an enveloped exchange stay here',
    ],
    ['      this.reply.call?.pause();\n', '', 'a decoder that is full slows the upstream'],
  ]),
  ...mutantsOf('src/gateway/response-headers.ts', sealed, [
    [
      'neverForwarded.has(lower) || isOwn(lower)',
      'neverForwarded.has(lower)',
      "the upstream says nothing in the sidecar's name",
    ],
    ["  'etag',\n", '', 'the tag of a plain body does not go with its envelope'],
    ["  'cache-control',\n", '', "the upstream's Cache-Control does not go with an envelope"],
    ["  'last-modified',\n", '', 'the date of a plain body does not go with its envelope'],
    ["  'x-request-id',\n", '', 'a response has one request id'],
    ['    headers = withoutNominated(headers, connection);\n', '', 'what the upstream nominates ends here'],
    ["if (status === 204 && lower === 'content-length') continue;\n", '', 'a 204 has no length'],
  ]),
  ...mutantsOf('src/gateway/reply.ts', reply, [
    ["if (!reservation.takeSlot()) return new Refusal('overloaded');\n", '', 'a request that is sent has a slot'],
    [
      '    this.request.reservation.release();\n    this.request.reservation.leaveSlot();',
      '    this.request.reservation.leaveSlot();',
      'bytes are given back at the end',
    ],
    [
      '    this.request.reservation.release();\n    this.request.reservation.leaveSlot();',
      '    this.request.reservation.release();',
      'the slot is given back at the end',
    ],
    [
      '    this.request.reservation.leaveSlot();\n    this.call?.abort();',
      '    this.request.reservation.leaveSlot();',
      'the upstream request ends with its client',
    ],
    ['if (httpVersionMinor === 0 && ', 'if (false && ', 'a broken response to HTTP/1.0 ends with a reset'],
    [
      '    if (this.request.bodyPending) this.raw.shouldKeepAlive = false;\n',
      '',
      'a response before the end of its request closes the connection',
    ],
    [
      "head?.method === 'HEAD' ? undefined : body",
      'body',
      'a response to HEAD has no body',
      'Node sends none; only the length that is stated would be there, and it may be',
    ],
    ['row.sealed && request.head', 'request.head', 'refusals are sealed as their row says'],
    [
      'const sealer = row.sealed && request.head?.method',
      'const sealer = false && request.head?.method',
      'refusals of an encrypting account are sealed',
    ],
    [
      "      this.#sealing = { sealer: undefined, credentials: 'none' };\n",
      '',
      'a plain refusal during a grace says so',
    ],
    [
      'if (row.closes === true || this.#restUnwanted) this',
      'if (this.#restUnwanted) this',
      'a refusal closes the connection as its row says',
    ],
    [
      'if (row.closes === true || this.#restUnwanted) this',
      'if (row.closes === true) this',
      'the rest of a large refused body is not read',
    ],
    ['const worthReading = 65_536;', 'const worthReading = 65_535;', 'the rest of a small refused body is read'],
    ['const worthReading = 65_536;', 'const worthReading = 65_537;', 'the rest of a larger refused body is not read'],
    [
      '    if (this.#refusal !== undefined) return;\n    this.call?.abort();\n    this.giveUp',
      '    this.call?.abort();\n    this.giveUp',
      'a request is refused once',
      'refuse() does nothing after a response has begun, and giving up breaks off what is being refused in no other case',
    ],
    ['      this.request.raw.socket.destroySoon();\n', '', 'the rest of a refused request is read for a while only'],
    [
      "if (this.#expiry === 'client_stalled') this.breakOff();\n    else this",
      'this',
      'a client that does not read is broken off',
      'a response that has begun is broken off by giveUp, too',
    ],
    [
      '      if (!this.begun) {\n        this.refuse(',
      '      if (true) {\n        this.refuse(',
      'a response that has begun is broken off',
    ],
    [
      '    reservation.leaveSlot();\n    this.wait(',
      '    this.wait(',
      'a request whose rest is thrown away leaves its slot',
    ],
    ['    request.reservation.release();\n    const row', '    const row', 'a refused request gives its bytes back'],
  ]),
  ...mutantsOf(
    'src/gateway/response-relay.ts',
    ['test/gateway/abort.test.ts', 'test/gateway/pass-through.test.ts'],
    [
      ['    source?.pause();\n', '', 'a slow client slows the upstream'],
      ["    this.reply.wait('client_stalled');\n", '', 'a client that does not read has a deadline'],
      ['      source?.resume();\n', '', 'the upstream goes on when the client reads'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/plain-response.ts',
    ['test/gateway/pass-through.test.ts', 'test/gateway/abort.test.ts'],
    [
      [
        '    if (this.reply.request.raw.httpVersionMinor === 0) return;\n',
        '',
        'HTTP/1.0 gets no informational responses',
      ],
      [
        'if (this.#awaited !== undefined) this.#awaited -= chunk.length;\n',
        '',
        'the last piece is told by what is awaited',
        'only the number of writes differs',
      ],
      ['if (!res.writableEnded) res.flushHeaders();', '', 'a stream of events begins at once'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    [
      ...connections,
      'test/upstream/upgrade.test.ts',
      'test/gateway/request-framing.test.ts',
      'test/gateway/malformed-request.test.ts',
    ],
    [
      [
        'if (req.socket.writableEnded) return;\n    if (res',
        'if (res',
        'behind a response that ends the connection nothing is a request',
      ],
      ['const mostPipelined = 100;', 'const mostPipelined = 101;', 'a hundred pipelined requests may wait'],
      [
        ' || connection.waitingBytes > this.#rules.limits.header) socket',
        ') socket',
        'pipelined heads are bounded by bytes',
      ],
      ['      connection.waitingBytes -= size;\n', '', 'a pipelined head that is served waits no more'],
      ['      connection.waiting -= 1;\n', '', 'a pipelined request that is served waits no more'],
      [
        ' || connectionOf(req.socket).current !== undefined) return false',
        ') return false',
        'an upgrade waits for no response before it',
      ],
      ['if (connection.faulty) return;\n', '', 'a fault is answered once'],
      [
        "if (isUnframed(reply.request.raw, head)) return new Refusal('ambiguous_request');\n",
        '',
        'a body that is stated and does not come is refused',
      ],
      [
        'if (reply.over || reply.begun) return;\n',
        '',
        'a request whose client left while its key was looked up is not sent',
      ],
      [
        "if (found === 'unavailable') continue;\n        if (found?.account.active",
        "if (found === 'unavailable' || found?.account.active",
        'a WebSocket outlives an outage of the accounts',
      ],
      ['!isInForce(found.key, this.#clock())', 'false', 'a WebSocket ends with its key'],
      ['found?.account.active !== true ||', 'found === undefined ||', 'a WebSocket ends with its account'],
      ['if (!socket.writable) return;\n', '', 'a refused connection is answered once'],
      ['      this.inFlight.remove(reply);\n', '', 'a request that is over is not in flight'],
    ],
  ),
  ...mutantsOf('src/gateway/client-connection.ts', connections, [
    ['if (this.#size <= this.limit) return;', 'if (this.#size <= this.limit + 1) return;', 'connections are bounded'],
    [
      'if (this.#size <= this.limit) return;',
      'if (this.#size < this.limit) return;',
      'as many connections as configured are open',
    ],
    [
      'const closed = this.#closable.first ?? connection;',
      'const closed = connection;',
      'a new connection takes the place of an idle one',
    ],
    [
      'if (!this.known && !this.closed) this',
      'if (!this.closed) this',
      'a connection that carried a known key is not closed for another',
    ],
    ['    this.#size -= 1;\n', '', 'a closed connection counts no more'],
    ['    if (connection.closed) return;\n', '', 'a closed connection counts once'],
    [
      'if (handshakes) this.#handshaking.set(address, connection);',
      '',
      'a TLS connection is the one that was taken in',
    ],
  ]),
  ...mutantsOf(
    'src/gateway/in-flight.ts',
    ['test/gateway/request-body.test.ts', 'test/gateway/abort.test.ts', 'test/app.test.ts'],
    [
      ['if (this.#draining) reply.drain();', '', 'during a drain each response closes its connection'],
      ['if (reply.deadline <= now) reply.expire();', ';', 'deadlines are kept'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/listener.ts',
    [
      'test/gateway/listener.test.ts',
      'test/gateway/head-limits.test.ts',
      'test/gateway/idle-connections.test.ts',
      'test/gateway/request-framing.test.ts',
    ],
    [
      [
        'server.maxHeadersCount = limits.headers + 1;',
        'server.maxHeadersCount = limits.headers;',
        'Node drops no field before the gateway counts them',
      ],
      ['    maxHeaderSize: limits.header,\n', '', 'Node bounds a head'],
      ['    headersTimeout: timeouts.header,\n', '', 'a head has a deadline'],
      ['handshakeTimeout: timeouts.header', 'handshakeTimeout: 120_000', 'a TLS handshake has a deadline'],
      ["    req.socket.on('error', () => {});\n", '', 'a reset CONNECT does not end the process'],
      [
        'tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true }',
        '{}',
        'clients show a certificate if the configuration says so',
      ],
      ["minVersion: 'TLSv1.2'", "minVersion: 'TLSv1'", 'old versions of TLS are refused'],
      ['    requireHostHeader: false,\n', '', 'a missing Host is refused with a problem document'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/tls-renewal.ts',
    ['test/app-reload.test.ts'],
    [
      ['(tls.clientCa ?? this.#clientCa)', 'tls.clientCa', 'a removed CA stays until a restart'],
      [
        'if (use.requests === 0 || use.upgraded) socket.destroy();\n      else',
        'if (use.upgraded) socket.destroy();\n      else',
        'idle connections of another CA are closed at once',
        'closing when idle finds no request and closes at once, too',
      ],
      [
        '      else void this.#closeWhenIdle(socket, use);\n',
        '',
        'busy connections of another CA are closed after their response',
      ],
      [
        'if (use.requests === 0 || use.upgraded) socket.destroy();\n      else void',
        'socket.destroy();\n      if (false) void',
        'a response that is in progress is not cut off by a new CA',
      ],
    ],
  ),
  ...mutantsOf('src/gateway/refusal.ts', reply, [
    ["  const headers = ['Cache-Control', 'no-store'];", '  const headers: string[] = [];', 'refusals are not cached'],
    ["if (row.status === 401) headers.push('WWW-Authenticate', 'Bearer');", '', 'a 401 says how to authenticate'],
    [
      "if (openToBrowsers) headers.push('Access-Control-Allow-Origin', '*');",
      "headers.push('Access-Control-Allow-Origin', '*');",
      'browsers read refusals of open routes only',
    ],
  ]),
  ...mutantsOf(
    'src/gateway/upstream-headers.ts',
    ['test/gateway/upstream-headers.test.ts', 'test/gateway/pass-through.test.ts'],
    [
      ['if (environment.forwardsAuthorization && head', 'if (head', 'the API key stays here'],
      ['if (request.rules.trusts(peer)) {', 'if (true) {', 'what a client says of itself is replaced'],
      [
        'forwarded.for === undefined ? peer : `${forwarded.for}, ${peer}`',
        'forwarded.for ?? peer',
        'each hop is named',
      ],
    ],
  ),
];
