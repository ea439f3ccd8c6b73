import { mutantsOf, type Mutant } from './mutant.ts';

const reuse = ['test/upstream/connection-reuse.test.ts'];
const connections = ['test/upstream/connection.test.ts', 'test/upstream/upstream.test.ts', ...reuse];
const upgrades = ['test/upstream/upgrade.test.ts'];

/** Code that talks to the upstream. */
export const upstreamMutants: readonly Mutant[] = [
  ...mutantsOf('src/upstream/connection.ts', reuse, [
    [
      'const isSent = this.#bodySent && this.socket.writableLength === 0;',
      'const isSent = this.socket.writableLength === 0;',
      'a connection with a half-sent streamed body is not used again',
    ],
    [
      'const isSent = this.#bodySent && this.socket.writableLength === 0;',
      'const isSent = this.#bodySent;',
      'a connection with a half-sent buffered body is not used again',
    ],
    ['      this.#bodySent = false;\n', '', 'a streamed body is not sent before its end'],
    ['reusable && isSent', 'isSent', 'a connection that the response ends is not used again'],
    [
      'isSent && !this.socket.destroyed',
      'isSent',
      'a destroyed connection is not kept',
      'the pool refuses it as well: two guards of one thing',
    ],
    [
      'isReused && !this.#parser.begun && call.isRetryable',
      '!this.#parser.begun && call.isRetryable',
      'what failed on a new connection is not sent again',
    ],
    [
      'isReused && !this.#parser.begun && call.isRetryable',
      'isReused && call.isRetryable',
      'what has been answered in part is not sent again',
    ],
    [
      'isReused && !this.#parser.begun && call.isRetryable',
      'isReused && !this.#parser.begun',
      'a body-less POST on a dead connection is not sent again',
    ],
  ]),
  ...mutantsOf('src/upstream/connection.ts', connections, [
    ["    socket.on('end', () => socket.destroy());\n", '', 'a half-closed connection ends'],
    ['    this.#parser.stop();\n', '', 'an aborted call hears nothing more'],
    [
      '      this.abort();\n      call?.onError(error);',
      '      call?.onError(error);',
      'a handler that throws ends its connection',
    ],
    ["outcome !== 'more'", 'false', 'what is no response ends its connection'],
    [
      '    socket.setNoDelay(true);\n',
      '',
      'small requests are not held back',
      'Node sets it by itself in none of its versions, but only time would show it',
    ],
    [
      "const hasRoom = socket.write('\\r\\n', 'latin1');",
      'const hasRoom = true;',
      'CRLF stands behind each chunk of a request',
    ],
    [
      "    if (this.#call?.chunked === true) this.socket.write('0\\r\\n\\r\\n', 'latin1');",
      '',
      'a chunked body has an end',
    ],
    [
      'if (this.#call?.chunked !== true) return socket.write(chunk);',
      'return socket.write(chunk);',
      'a body without a length is sent in chunks',
    ],
    [
      '    this.socket.resume();\n    const { reusable',
      '    const { reusable',
      'a slow client holds back no later response',
    ],
  ]),
  ...mutantsOf('src/upstream/call.ts', reuse, [
    ['this.body === undefined && (method', '(method', 'a request with a body is not sent again'],
    [
      "method === 'GET' || method === 'HEAD' || method === 'OPTIONS')",
      "method !== 'PATCH')",
      'only safe methods are sent again',
    ],
    [
      "method === 'GET' || method === 'HEAD' || method === 'OPTIONS')",
      "method === 'GET')",
      'HEAD and OPTIONS are sent again',
    ],
    ['    this.over = true;\n', '', 'a call is over once'],
    ['    if (isStreamed(this.body)) this.body.stop();\n', '', 'a streamed body is told that no more is wanted'],
  ]),
  ...mutantsOf('src/upstream/call.ts', connections, [
    ['    if (!hosted) head += `Host: ${authority}\\r\\n`;\n', '', 'each request has a Host'],
    ["if (name === 'Content-Length') sized = true;\n      else ", '', 'a body with a length is not sent in chunks'],
    [
      'this.handler.onEnd();\n    } catch (error) {\n      this.handler.onError(error);',
      'this.handler.onEnd();\n    } catch {',
      'what a handler throws at the end ends its call',
    ],
  ]),
  ...mutantsOf('src/upstream/upstream.ts', reuse, [
    ['const defaultIdleTime = 4_000;', 'const defaultIdleTime = 4_001;', 'an idle connection is given up after 4 s'],
    ['const defaultIdleTime = 4_000;', 'const defaultIdleTime = 3_999;', 'an idle connection is kept for 4 s'],
    ['const maxIdleTime = 60_000;', 'const maxIdleTime = 60_001;', 'no connection is idle for longer than a minute'],
    ['keepAlive * 1_000 - 1_000', 'keepAlive * 1_000', 'a connection is given up a second before the upstream does'],
    [
      '    clearInterval(this.#sweep);\n    this.#closeIdle(Infinity);',
      '    this.#closeIdle(Infinity);',
      'a closed client leaves no timer',
      'the timer does not keep the process, and finds nothing to close',
    ],
    ['    this.#closeIdle(Infinity);\n', '', 'idle connections end when the client is closed'],
    [
      'if (this.#closed) connection.socket.destroy();\n    else if',
      'if',
      'a connection is not kept after the client was closed',
    ],
    [
      'if (call.over) this.#keep(connection);\n        else if',
      'if',
      'a request whose client left is not sent on a rested connection',
    ],
    [
      'if (call.over) this.#keep(connection);',
      'if (call.over) this.onIdle(connection);',
      'what was not sent does not count as use of a connection',
    ],
    [
      'if (connection.idleUntil <= now) connection.socket.destroy();\n      else if',
      'if',
      'a connection that is over its time is not used',
    ],
    [
      'if (connection.idleUntil <= now) connection.socket.destroy();\n      else',
      'if (connection.idleUntil < now) connection.socket.destroy();\n      else',
      'a connection is not used at the moment it is given up',
    ],
    [
      'for (const connection of this.#idle) if (connection.idleUntil <= now) connection.socket.destroy();',
      '',
      'idle connections are given up though no request comes',
    ],
  ]),
  ...mutantsOf('src/upstream/upstream.ts', connections, [
    [
      'else if (now - (connection.idleSince ?? 0) < doubtfulAfter) {',
      'else if (true) {',
      'a rested connection is looked at before it is used',
    ],
    [
      'else if (connection.socket.destroyed) this.#send(call);\n        else',
      'else',
      'a connection that died meanwhile is replaced',
    ],
    [
      'if (call.over) return;\n        const timedOut',
      'const timedOut',
      'an aborted call does not connect again',
      'the call is over: nothing is sent on the connection, which is kept',
    ],
    [
      'if (!timedOut && mayConnectAgain) this.#connect(call, false);\n        else call',
      'call',
      'a failed connection is tried once more',
    ],
    ['this.#connect(call, false)', 'this.#connect(call, true)', 'a failed connection is tried no third time'],
    [
      "timedOut ? 'upstream_timeout' : 'upstream_unavailable', cause",
      "'upstream_unavailable', cause",
      'a connection that times out is named so',
    ],
    [
      '    if (index !== -1) this.#idle.splice(index, 1);\n',
      '',
      'a closed connection leaves the pool',
      'one that is destroyed is passed over when it is taken; only memory would show it',
    ],
    [
      'else if (!connection.socket.destroyed) return connection;',
      'else return connection;',
      'a dead connection is not used',
      'one that closes leaves the pool in the same turn',
    ],
  ]),
  ...mutantsOf(
    'src/upstream/connect.ts',
    ['test/gateway/held-up.test.ts'],
    [['void setImmediate(expire)', 'expire()', 'a connection is noticed before its timeout is looked at']],
  ),
  ...mutantsOf(
    'src/upstream/connect.ts',
    ['test/upstream/upstream.test.ts', 'test/gateway/abort.test.ts'],
    [
      [
        '      receive?.(Buffer.from(memory, byteOffset, length));\n',
        '      receive?.(Buffer.from(memory, byteOffset));\n',
        'only what was read is taken in',
      ],
      ["    cause = 'ETIMEDOUT';\n", '', 'a connection that takes too long is a timeout'],
      [
        '    clearTimeout(timer);\n    socket.off',
        '    socket.off',
        'a connection is not ended by the timeout of connecting',
        'the timer that fires later does nothing to a connection that is there',
      ],
      [
        "    minVersion: 'TLSv1.2',\n",
        "    minVersion: 'TLSv1',\n",
        'old versions of TLS get nothing',
        'OpenSSL offers no older one at its default level of security',
      ],
      ['    servername,\n', '', 'the certificate has the name that is configured'],
      ['    cert,\n    key,\n', '', 'the upstream gets the certificate of the sidecar'],
      ['    ca,\n', '', 'the upstream is verified with the configured CA'],
      ["'encrypted' in socket ? 'secureConnect' : 'connect'", "'connect'", 'nothing is sent before TLS is set up'],
    ],
  ),
  ...mutantsOf('src/upstream/upgrade.ts', upgrades, [
    ['    proxyRequest.path = path;\n', '', 'an upgrade goes to the path that was checked'],
    [
      "      client.once('close', () => upstreamSocket.destroy());\n",
      '',
      "the upstream is let go when a WebSocket's client vanishes",
    ],
    [
      "      upstreamSocket.once('close', () => client.destroySoon());\n",
      '',
      "the client is let go when a WebSocket's upstream vanishes",
      'http-proxy ends it too, when the connection ends or fails',
    ],
    ['    limitConnect(proxyRequest, connectTimeout);\n', '', 'connecting for an upgrade has a deadline'],
    ['ssl: { servername, maxHeaderSize', 'ssl: { maxHeaderSize', 'an upgrade checks the configured name'],
    [
      "outgoing?.removeAllListeners('response').once('response'",
      "outgoing?.once('response'",
      'http-proxy does not write a response to an upgrade by itself',
    ],
    [
      '    this.#parser.stop();\n    this.outgoing?.destroy();',
      '    this.#parser.stop();',
      'an upgrade that is given up is ended',
    ],
    [
      '      this.abort();\n      this.#handler.onError(error);',
      '      throw error;',
      "what the handler of an upgrade's response throws does not end the process",
    ],
    [
      'req.headers = { ...grouped(headers), ...upgradeHeaders };',
      'req.headers = { ...req.headers, ...grouped(headers), ...upgradeHeaders };',
      'an upgrade goes out without what the client says of itself',
    ],
  ]),
  ...mutantsOf(
    'src/upstream/upgrade.ts',
    ['test/upstream/upgrade-response.test.ts'],
    [
      [
        "      upstreamSocket.once('close', () => this.fail({ code: 'ECONNCLOSED' }));\n",
        '',
        'a response to an upgrade that breaks off is broken off',
      ],
      ["    outgoing?.removeAllListeners('upgrade');\n", '', 'no switch is coupled before it is accepted'],
      ['        if (!isWebSocketSwitch(headers)) return false;\n', '', 'an upgrade switches to WebSocket only'],
      ['/^websocket$/i.test(String(protocol))', "String(protocol) !== 'h2c'", 'an upgrade switches to one protocol'],
      [
        ' && /(?:^|,)[\\t ]*upgrade[\\t ]*(?:,|$)/i.test(String(connection))',
        '',
        'a switch is nominated by Connection',
      ],
      [', maxHeaderSize: 2 * maxHeadSize', '', 'the head of a response to an upgrade may be as large as any other'],
      ['    this.#response?.pause();\n', '', 'a response to an upgrade waits for a slow client'],
    ],
  ),
  ...mutantsOf(
    'src/upstream/response-parser.ts',
    ['test/upstream/upgrade-response.test.ts'],
    [['return isHttp11 && events', 'return events', 'HTTP/1.0 switches no protocols']],
  ),
  ...mutantsOf(
    'src/upstream/upstream.ts',
    ['test/upstream/upstreams.test.ts'],
    [
      ['isSame ? before', 'false ? before', 'an upstream that stays the same keeps its connections'],
      [
        'const isSame = before?.settings === settings;',
        'const isSame = before !== undefined;',
        'an upstream that changes is replaced',
      ],
    ],
  ),
];
