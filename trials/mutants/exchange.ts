import { mutantsOf, type Mutant } from './mutant.ts';

/** Bodies on their way to the upstream. */
export const exchangeMutants: readonly Mutant[] = [
  ...mutantsOf(
    'src/gateway/exchange.ts',
    ['test/gateway/exchange.test.ts'],
    [
      [
        "if (isEncoded(head)) return new Refusal('unsupported_content_encoding');\n",
        '',
        'a compressed envelope is refused as such',
      ],
      [
        'if (takesPlaintext(encryption) && !hasEnvelopeShape(sent)) {',
        'if (!hasEnvelopeShape(sent)) {',
        'plaintext is not accepted without a grace',
      ],
      [
        "environment.name === 'test' ? { hint: hintForBody(sent, opened.code, openers[0]) } : {}",
        '{ hint: hintForBody(sent, opened.code, openers[0]) }',
        'no hint leaves live',
      ],
      [
        "['Accept-Encoding', 'identity']",
        "['Accept-Encoding', 'gzip']",
        'the upstream is asked not to compress what is sealed',
      ],
      [
        'if (sealer === undefined) return forward',
        'if (true) return forward',
        'the response of an enveloped exchange is sealed',
      ],
      [
        'if (sent instanceof Refusal) return sent;',
        'if (sent instanceof Refusal) return undefined;',
        'a body that is refused is answered',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/exchange.ts',
    ['test/gateway/grace.test.ts'],
    [
      [
        'if (takesPlaintext(encryption) && !hasEnvelopeShape(sent)) {',
        'if (takesPlaintext(encryption)) {',
        'an envelope is opened though plaintext is accepted',
      ],
      [
        'reply.sealing = sealingWith(opened.openedBy, encryption);',
        '',
        'a response is sealed with what opened the request',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/exchange.ts',
    ['test/gateway/failed-attempts.test.ts'],
    [
      [
        "environment.name === 'live' ? holder?.key.id : undefined",
        'undefined',
        'failed decryptions are limited in live',
      ],
      [
        "environment.name === 'live' ? holder?.key.id : undefined",
        'holder?.key.id',
        'failed decryptions are not limited in test',
      ],
      [
        'if (subject !== undefined) this.#openFailures.failed(subject, failedKeys.window, before);\n',
        '',
        'failed decryptions are counted',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/sealing.ts',
    ['test/gateway/grace.test.ts'],
    [
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
      [
        "head.requestedCredentials?.toLowerCase() === 'current'",
        'false',
        'a caller may ask for the current credentials',
      ],
      ['[current] : [current, grace.previous]', '[current] : [current]', 'a grace opens with the previous credentials'],
      [
        '[current, grace.previous]',
        '[grace.previous, current]',
        'the current credentials are tried first',
        'each opens what the other does not, but for one chance in 2^16 or so',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-body.ts',
    ['test/gateway/request-body.test.ts'],
    [
      [
        "if ((head.body.contentLength ?? 0) > limit) return new Refusal('body_too_large');\n",
        '',
        'a body that is stated too large is refused at once',
      ],
      ['return length > limit ?', 'return false ?', 'a body that is there in whole is bounded'],
      ['return length > limit ?', 'return length >= limit ?', 'the bound of a body that is there is exact'],
      ['if (charge > 0 && !reservation', 'if (false && !reservation', 'the budget pays for a body that is there'],
      ['chunk !== null; chunk = raw.read() as Buffer | null', 'chunk !== null; chunk = null', 'all pieces are taken'],
      ['if (length > limit || !goOn', 'if (!goOn', 'a body in chunks is bounded'],
      ['if (length > limit || !goOn', 'if (length >= limit || !goOn', 'the bound of a body is exact'],
      [
        '(head.body.contentLength ?? 0) > limit',
        '(head.body.contentLength ?? 0) >= limit',
        'the bound of a stated body is exact',
      ],
      ["        stop(new Refusal('overloaded'));\n        return;\n", '', 'what the budget does not have is refused'],
      [
        ".off('end', onEnd).pause();",
        ".off('end', onEnd);",
        'the rest of a refused body is not read into memory',
        'in the same turn the refusal reads it and throws it away, or the upstream gets it',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-body.ts',
    ['test/gateway/encryption-not-supported.test.ts', 'test/gateway/exchange.test.ts'],
    [["head.contentEncoding.toLowerCase() !== 'identity'", 'true', 'identity is no coding']],
  ),
  ...mutantsOf(
    'src/gateway/request-body.ts',
    ['test/gateway/request-body.test.ts', 'test/gateway/slots.test.ts'],
    [['const minChunkSize = 512;', 'const minChunkSize = 0;', 'a small chunk is charged for what it takes']],
  ),
  ...mutantsOf(
    'src/gateway/request-body.ts',
    ['test/gateway/passing-body.test.ts'],
    [
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
    ],
  ),
  ...mutantsOf(
    'src/gateway/request-body.ts',
    ['test/gateway/cipher-test.test.ts'],
    [
      [
        'const limit = Math.min(maxLength, reply.request.rules.limits.requestBody);',
        'const limit = reply.request.rules.limits.requestBody;',
        'the test endpoints take 64 KiB',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/pass-through.ts',
    ['test/gateway/slots.test.ts'],
    [
      [
        "    if (!reservation.takeSlot()) return new Refusal('overloaded');\n",
        '',
        'a streamed body is asked for only if there is a slot',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/pass-through.ts',
    ['test/gateway/encryption-not-supported.test.ts', 'test/gateway/pass-through.test.ts'],
    [
      ['isEnvelope(body) && ', 'false && ', 'an envelope does not reach an upstream that expects plaintext'],
      [
        '    if (reply.begun) return undefined;\n',
        '',
        'a request that was refused meanwhile is not sent',
        'a body whose response has begun is not handed on, so the next line is not reached',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/pass-through.ts',
    ['test/gateway/encryption-not-supported.test.ts'],
    [
      [' || (head.body.contentLength ?? 0) > requestBody) {', ') {', 'a body that is stated large is not looked at'],
      ['return index > 0 || mayBeJsonObject(chunk);', 'return true;', 'a body that is no JSON object is not held'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/cipher-test.ts',
    ['test/gateway/cipher-test.test.ts'],
    [
      [
        "if (head.method !== 'POST') return new Refusal('method_not_allowed', { allow: 'POST' });\n",
        '',
        'the test endpoints take POST',
      ],
      ['const maxBytes = 65_536;', 'const maxBytes = 65_537;', 'the test endpoints take 64 KiB at most'],
      [
        "if (isEncoded(head)) return new Refusal('unsupported_content_encoding');\n",
        '',
        'the test endpoints refuse compressed bodies',
      ],
      ["'Cache-Control', 'no-store'], result", '], result', 'results of the test endpoints are not cached'],
    ],
  ),
  ...mutantsOf(
    'src/gateway/cipher-test.ts',
    ['test/gateway/slots.test.ts'],
    [
      [
        "reservation.takeSlot('keyless')",
        'reservation.takeSlot()',
        'the test endpoints use the share of keyless requests',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/forward.ts',
    ['test/gateway/slots.test.ts'],
    [
      [
        "const { reservation, stats } = reply.request;\n  if (!reservation.takeSlot()) return new Refusal('overloaded');\n",
        'const { stats } = reply.request;\n',
        'a request that is sent has a slot',
      ],
    ],
  ),
  ...mutantsOf(
    'src/gateway/forward.ts',
    ['test/gateway/admission.test.ts', 'test/gateway/pass-through.test.ts', 'test/gateway/withheld-headers.test.ts'],
    [['if (environment.forwardsAuthorization && head', 'if (head', 'the API key stays here']],
  ),
  ...mutantsOf(
    'src/gateway/forward.ts',
    ['test/gateway/upstream-headers.test.ts'],
    [
      ['if (request.rules.trusts(peer)) {', 'if (true) {', 'what a client says of itself is replaced'],
      [
        'forwarded.for === undefined ? peer : `${forwarded.for}, ${peer}`',
        'forwarded.for ?? peer',
        'each hop is named',
      ],
    ],
  ),
  ...mutantsOf(
    'src/envelope/diagnosis.ts',
    ['test/gateway/cipher-test.test.ts'],
    [
      [
        'if (decrypted.paddingOk && isJson(decrypted.plaintext))',
        'if (isJson(decrypted.plaintext))',
        'the test endpoints refuse bad padding',
      ],
    ],
  ),
];
