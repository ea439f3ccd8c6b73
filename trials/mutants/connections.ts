import { mutantsOf, type Mutant } from './mutant.ts';

/** Clients' connections. */
export const connectionMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/refused-not-sent.test.ts'],
    [
      [
        'if (req.socket.writableEnded) return;\n    if (this.#order',
        'if (this.#order',
        'behind a response that ends the connection nothing is a request',
      ],
      [
        'req.socket.writableEnded || current',
        'current',
        'behind a response that ends the connection nothing is a WebSocket handshake',
        'the gateway does not handle it either: a second guard, so that Node gets no response for an ended socket',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/connections.test.ts'],
    [['    this.connections.stop();\n', '', 'a TLS handshake is not completed after the drain']],
  ),
  ...mutantsOf(
    'src/gateway/turns.ts',
    ['test/gateway/pipelined.test.ts'],
    [
      ['        connection.waitingBytes -= size;\n', '', 'a pipelined head that is served waits no more'],
      ['        connection.waiting -= 1;\n', '', 'a pipelined request that is served waits no more'],
      ['const perTurn = 8;', 'const perTurn = 1_000;', 'others are served between pipelined requests'],
      [' || !this.#holds(connection, held)) {', ') {', 'a pipelined request needs room'],
      [' + (fieldMemory * req.rawHeaders.length) / 2', '', 'the fields of a waiting head are charged'],
      ['req.rawHeaders.length) / 2 + readAhead(req)', 'req.rawHeaders.length) / 2', 'a body in advance is charged'],
      ['        connection.waitingBuffers?.release(held);\n', '', 'a pipelined request is charged until its turn'],
      [
        "if (connection.isMerchants) connection.waitingBuffers.identify('secret');\n",
        '',
        'strangers leave room for merchants who pipeline',
      ],
      [
        "      connection.socket.once('close', () => reservation.release());\n",
        '',
        'what waits is released with its connection',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/turns.ts',
    ['test/gateway/turns.test.ts'],
    [
      ['this.#strangers.takeNow()', 'true', 'few requests of strangers begin in a turn'],
      ['(connection.isMerchants || ', '(', 'a connection that has carried a secret key does not wait'],
      ['if (arrived.isMerchants()) arrived', 'if (false) arrived', 'a new connection with a secret key does not wait'],
      ['if (!this.#holds(connection, body)) {', 'if (false) {', 'a body that waits is charged'],
      [
        'connection.isMerchants ? this.#merchants : this.#strangers',
        'this.#strangers',
        'merchants have their own turns',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/turns.ts',
    ['test/gateway/turns.test.ts'],
    [['this.#waiting.length > 0 || ', '', 'what comes does not overtake what waits']],
  ),
  ...mutantsOf(
    'src/http.ts',
    ['test/gateway/gathering.test.ts'],
    [
      ['if (this.readableFlowing === true) {', 'if (true) {', 'a body that trickles in before it is read is gathered'],
      ['        this.#passesOnAtResume = false;\n', '', 'a body that is paused twice goes on'],
      ['before.copy(this.#gathered);', '', 'what was gathered is kept when the buffer grows'],
      ['if (this.#length + piece.length > maxGathered) this.#passOn();', '', 'what is gathered is bounded'],
    ],
  ),
  ...mutantsOf(
    'src/http.ts',
    ['test/gateway/pass-through.test.ts'],
    [
      ['this.#isFirst || piece.length', 'true || piece.length', 'tiny chunks are gathered'],
      ['      this.#passOn();\n      return super', '      return super', 'pieces keep their order'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/client-connection.ts',
    ['test/gateway/pipelined.test.ts'],
    [
      ['maxWaitingOfMerchant = 100;', 'maxWaitingOfMerchant = 101;', 'a hundred pipelined requests may wait'],
      ['maxWaitingOfStranger = 10;', 'maxWaitingOfStranger = 11;', 'ten pipelined requests of a stranger may wait'],
      ['if (isSecret) this', 'this', 'a public key may not pipeline more than none'],
    ],
  ),
  ...mutantsOf(
    'src/http.ts',
    ['test/gateway/acceptors.test.ts'],
    [
      ['if (port === 0) return', 'return', 'a port in use is an error'],
      ['await claimPort(host, port)', 'createServer()', 'one of two sidecars that start together gets the port'],
      ['maxSockets = 128', 'maxSockets = 1', 'many connections are accepted in a turn'],
      ['    for (const other of this.#others) other.close();\n', '', 'all sockets are closed'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/turns.test.ts'],
    [['this.handle(req, res, early);', 'this.#begin(req, res, early);', 'a handshake waits for its turn']],
  ),
  ...mutantsOf(
    'src/gateway/turns.ts',
    ['test/gateway/connections.test.ts'],
    [[' || connection.waitingBytes > maxWaitingBytes;', ';', 'pipelined heads are bounded by bytes']],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/upstream/upgrade.test.ts'],
    [
      [
        ' || current !== undefined || hasWaiting) return false',
        ' || hasWaiting) return false',
        'an upgrade waits for no response before it',
      ],
      ['!isValidKey(found.key, this.#clock())', 'false', 'a WebSocket ends with its key'],
      ['found?.account.active !== true ||', 'found === undefined ||', 'a WebSocket ends with its account'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/upstream/websocket-outage.test.ts'],
    [
      [
        "if (found === 'unavailable') continue;\n        if (found?.account.active",
        "if (found === 'unavailable' || found?.account.active",
        'a WebSocket outlives an outage of the accounts',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/malformed-request.test.ts', 'test/gateway/request-framing.test.ts'],
    [
      [
        'if (connection.faulty) return;\n',
        '',
        'a fault gets one response',
        'the connection has ended when the second response would be written',
      ],
      ['if (!socket.writable) return;\n', '', 'a refused connection is answered once'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/request-framing.test.ts', 'test/gateway/ignored-upgrade.test.ts'],
    [
      [
        "if (isUnframed(admitted)) return new Refusal('ambiguous_request');\n",
        '',
        'a body that is stated and does not come is refused',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/early-response.test.ts'],
    [
      [
        'if (reply.over || reply.begun) return;\n',
        '',
        'a request whose client left while its key was looked up is not sent',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/pipelined.test.ts', 'test/gateway/connections.test.ts'],
    [['      this.activeReplies.remove(reply);\n', '', 'a request that is over is not in flight']],
  ),
  ...mutantsOf(
    'src/gateway/client-connection.ts',
    ['test/gateway/connections.test.ts'],
    [
      ['if (this.size <= this.limit) return;', 'if (this.size <= this.limit + 1) return;', 'connections are bounded'],
      [
        'if (this.size <= this.limit) return;',
        'if (this.size < this.limit) return;',
        'as many connections as configured are open',
      ],
      [
        'const evicted = this.#evictable.first ?? connection;',
        'const evicted = connection;',
        'a new connection takes the place of an idle one',
      ],
      [
        'if (!this.known && !this.closed) this',
        'if (!this.closed) this',
        'a connection that carried a known key is not closed for another',
      ],
      ['    this.size -= 1;\n', '', 'a closed connection counts no more'],
      ['    if (connection.closed) return;\n', '', 'a closed connection counts once'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/client-connection.ts',
    ['test/gateway/connections.test.ts', 'test/gateway/listener.test.ts'],
    [
      [
        'if (handshakes) this.#handshaking.set(address, connection);',
        '',
        'a TLS connection is the one that was taken in',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/active-replies.ts',
    ['test/app.test.ts'],
    [['if (this.#draining) reply.drain();', '', 'during a drain each response closes its connection']],
  ),
  ...mutantsOf(
    'src/gateway/active-replies.ts',
    ['test/gateway/abort.test.ts'],
    [['if (reply.deadline <= now) reply.expire();', ';', 'deadlines are kept']],
  ),
  ...mutantsOf(
    'src/gateway/active-replies.ts',
    ['test/gateway/held-up.test.ts'],
    [['void setImmediate(() => this.#expire())', 'this.#expire()', 'sockets are read before a deadline is looked at']],
  ),
  ...mutantsOf(
    'src/gateway/listener.ts',
    ['test/gateway/head-limits.test.ts'],
    [
      [
        'server.maxHeadersCount = limits.headers + 1;',
        'server.maxHeadersCount = limits.headers;',
        'Node drops no field before the gateway counts them',
        'Node 26.10 refuses a head with more fields as it refuses one with more bytes; before, it dropped them',
      ],
      ['    maxHeaderSize: limits.header,\n', '', 'Node bounds a head'],
      ['    headersTimeout: timeouts.header,\n', '', 'a head has a deadline'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/listener.ts',
    ['test/gateway/listener.test.ts'],
    [
      ['handshakeTimeout: timeouts.header', 'handshakeTimeout: 120_000', 'a TLS handshake has a deadline'],
      [
        'tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true }',
        '{}',
        'clients show a certificate if the configuration says so',
      ],
      [
        "minVersion: 'TLSv1.2'",
        "minVersion: 'TLSv1'",
        'old versions of TLS are refused',
        'OpenSSL offers no older one at its default level of security',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/listener.ts',
    ['test/gateway/pipelined.test.ts', 'test/gateway/upgrade-body.test.ts'],
    [["    stream.on('error', () => {});\n", '', 'a reset CONNECT does not end the process']],
  ),
  ...mutantsOf(
    'src/gateway/listener.ts',
    ['test/gateway/ambiguous-head.test.ts', 'test/gateway/request-framing.test.ts'],
    [['    requireHostHeader: false,\n', '', 'a missing Host is refused with a problem document']],
  ),
  ...mutantsOf(
    'src/gateway/tls-renewal.ts',
    ['test/app-reload.test.ts'],
    [
      ['(tls.clientCa ?? this.#clientCa)', 'tls.clientCa', 'a removed CA stays until a restart'],
      [
        'if (use.requests === 0) socket.destroy();\n      else void',
        'if (use.requests > 0) void',
        'idle connections of another CA are closed at once',
        'closing when idle finds no request and closes at once, too',
      ],
      [
        '      else void waitUntil(() => socket.destroyed || use.requests === 0, Infinity).then(() => socket.destroy());\n',
        '',
        'busy connections of another CA are closed after their response',
      ],
      [
        'if (use.requests === 0) socket.destroy();\n      else void',
        'socket.destroy();\n      if (false) void',
        'a response that is in progress is not cut off by a new CA',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/forward.ts',
    ['test/upstream/upgrade.test.ts'],
    [
      [
        "const { raw, reservation } = reply.request;\n  if (!reservation.takeSlot()) return new Refusal('overloaded');\n",
        'const { raw } = reply.request;\n',
        'a WebSocket takes a slot',
      ],
      [
        'readResponseHead(101, switched).headers;',
        '[...switched];',
        'a 101 carries nothing that only the sidecar may say',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/upgrade-body.test.ts'],
    [
      ["headers['transfer-encoding'] === undefined && ", '', 'a WebSocket handshake has no chunks'],
      [" && /^0*$/.test(headers['content-length'] ?? '')", '', 'a WebSocket handshake has no body'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-head.ts',
    ['test/gateway/upgrade-body.test.ts'],
    [
      [
        " || method !== 'GET' || httpVersionMinor === 0) return false",
        ' || httpVersionMinor === 0) return false',
        'a WebSocket begins with GET',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/upstream/upgrade-response.test.ts'],
    [
      [
        ".on('drain', () => res.emit('drain'))",
        '',
        'a response to a handshake goes on when a slow client has read what was sent',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/gateway.ts',
    ['test/gateway/early-bytes.test.ts'],
    [
      [
        'if (!socket.destroyed) this.handle(req, res, early);',
        'this.handle(req, res, early);',
        'a handshake with too many bytes behind it is not forwarded',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/early-bytes.ts',
    ['test/gateway/early-bytes.test.ts'],
    [
      [".on('end', this.#end);", ';', 'a client that leaves ends its handshake'],
      [
        'if (this.#bytes.length + bytes.length > maxEarlyBytes) this.#socket.destroy();\n    else ',
        '',
        'bytes before a 101 are bounded',
      ],
      ['if (this.#bytes.length > 0) this.#socket.unshift(this.#bytes);', '', 'bytes before a 101 are not lost'],
      [".off('data', this.#keep)", '', 'bytes after a 101 are not kept'],
    ],
  ),
];
