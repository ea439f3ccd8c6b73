import { mutantsOf, type Mutant } from './mutant.ts';

const cipher = ['test/envelope/aes-cbc.test.ts', 'test/envelope/envelope.test.ts'];
const envelope = ['test/envelope/envelope.test.ts'];
const hints = ['test/envelope/hints.test.ts', 'test/envelope/diagnosis.test.ts'];

/** Code that opens and seals envelopes. */
export const envelopeMutants: readonly Mutant[] = [
  ...mutantsOf('src/envelope/aes-cbc.ts', cipher, [
    ['ciphertext.length > 0 && ', '', 'an empty ciphertext is not whole blocks'],
    ['ciphertext.length % blockLength === 0', 'true', 'a ciphertext is whole blocks'],
    ['- (plaintextLength % blockLength) + blockLength', '- (plaintextLength % blockLength)', 'padding is never empty'],
    [
      'plaintext.copy(padded);\n    padded.fill(length - plaintext.length',
      'plaintext.copy(padded);\n    padded.fill(0',
      'the padding says its length',
    ],
    [
      "    if (!isWholeBlocks(ciphertext)) return 'length';\n",
      '',
      'decryption refuses a ciphertext that is not blocks',
    ],
    ['ciphertext.copy(last, 0, length - blockLength);', '', 'the cipher knows the block it chains to'],
    [' ^ (last[i] as number);', ';', 'each message begins with the IV of its account'],
    [
      'Buffer.concat([this.#iv, ciphertext])).subarray(blockLength)',
      'ciphertext)',
      'a message is decrypted from its IV on',
    ],
    ['paddingOk: padding !== 0', 'paddingOk: true', 'bad padding is told from good'],
    [
      'return bad === 0 ? length : 0;',
      'return length <= blockLength ? length : 0;',
      'every byte of the padding is checked',
    ],
    ['let bad = (blockLength - length) >> 31;', 'let bad = 0;', 'a padding is no longer than a block'],
    ['fromEnd <= blockLength', 'fromEnd < blockLength', 'a padding of a whole block is checked in whole'],
    ['(fromEnd - 1 - length) >> 31', '(fromEnd - length) >> 31', 'the first byte of the padding is checked'],
    [
      '(padded[padded.length - fromEnd] as number) ^ length',
      '(padded[padded.length - fromEnd] as number) ^ 0',
      'the bytes of the padding are compared with its length',
    ],
    [
      'padded.subarray(0, padded.length - padding), paddingOk',
      'padded, paddingOk',
      'the padding does not go on with the plaintext',
    ],
    [
      '    // After a failure the cipher is not used again.\n    this.#encrypting = undefined;',
      '',
      'a cipher that failed is not used again',
      'OpenSSL does not fail in an update of whole blocks, so no test can make it',
    ],
  ]),
  ...mutantsOf('src/envelope/aes-cbc-codec.ts', envelope, [
    [
      "    const json = isJson(decrypted.plaintext);\n    if (!decrypted.paddingOk) return 'padding';",
      "    if (!decrypted.paddingOk) return 'padding';\n    const json = isJson(decrypted.plaintext);",
      'bad padding takes as long as bad JSON',
    ],
    ["    if (!decrypted.paddingOk) return 'padding';\n", '', 'a plaintext with bad padding does not open'],
    [
      "return json ? decrypted.plaintext : 'not_json'",
      'return decrypted.plaintext',
      'a plaintext that is not JSON does not open',
    ],
    [
      "if (ciphertext === undefined) return 'encoding';\n    const decrypted",
      "if (ciphertext === undefined) return 'length';\n    const decrypted",
      'a string that is no ciphertext is named so',
    ],
    [
      'Math.ceil(bytes / 3) * 4',
      'Math.floor(bytes / 3) * 4',
      'the stated length of a sealed response is exact (base64)',
    ],
    ["'hex' ? bytes * 2", "'hex' ? bytes", 'the stated length of a sealed response is exact (hex)'],
    [
      'ciphertext !== undefined && isWholeBlocks(ciphertext)',
      'ciphertext !== undefined',
      'an envelope holds whole blocks',
    ],
    [
      'this.#carry.toString(this.#encoding) + envelopeTail',
      'envelopeTail',
      'the last bytes of a base64 group are sent',
    ],
    ['this.#carry = bytes.subarray(whole);', '', 'bytes that do not fill a base64 group are kept'],
    ["    this.#head = '';\n", '', 'the head of an envelope is written once'],
    ['bytes.length - (bytes.length % 3)', 'bytes.length', 'base64 is cut between groups'],
    [
      'new AesCbcSealStream(this.#aes.encryptor(), this.#encoding)',
      "new AesCbcSealStream(this.#aes.encryptor(), 'hex')",
      'a stream is sealed in the encoding of its account',
    ],
  ]),
  ...mutantsOf('src/envelope/envelope.ts', envelope, [
    [
      'if (data === undefined) return whyNoCiphertext(body);\n',
      "if (data === undefined) return { code: 'envelope_required' };\n",
      'malformed is told from missing',
    ],
    ["if (typeof opened !== 'string') return", 'return', 'what did not open is not taken for opened'],
    [
      'Math.max(furthest, reasons.indexOf(opened))',
      'reasons.indexOf(opened)',
      'the reason is how far the best opener came',
    ],
    ["if (!isJson(body)) return { code: 'envelope_malformed' };\n", '', 'a body that is not JSON is malformed'],
    [
      "Object.hasOwn(value, 'data')",
      "'data' in value",
      'a prototype has no say in whether there is an envelope',
      'JSON.parse makes plain objects and arrays, whose prototypes have no such member',
    ],
    ['return isJson(body) && soleData', 'return soleData', 'plaintext is told from an envelope by valid JSON'],
    ['&& looksLikeCiphertext(data)', '', 'a string that cannot be a ciphertext is no envelope'],
  ]),
  ...mutantsOf(
    'src/envelope/encoding.ts',
    ['test/envelope/encoding.test.ts', ...envelope],
    [
      ["bytes.toString('base64') === text ? bytes : undefined", 'bytes', 'base64 is strict'],
      ['bytes.length * 2 === text.length &&', '', 'hex has no other characters and an even length'],
      [
        'text.length && Buffer.byteLength(text) === text.length',
        'text.length',
        'characters beyond Latin-1 are no hex digits',
      ],
      ['decodeHex(text) ?? decodeBase64(text)', 'decodeBase64(text) ?? decodeHex(text)', 'hex digits only are hex'],
    ],
  ),
  ...mutantsOf(
    'src/envelope/json.ts',
    ['test/envelope/json.test.ts', ...envelope],
    [
      ['JSON.parse(isUtf8(bytes) ? text : `${text}\\0`);', 'JSON.parse(text);', 'a plaintext is UTF-8'],
      [
        '    JSON.parse(isUtf8(bytes) ? text : `${text}\\0`);',
        '    if (!isUtf8(bytes)) return false;\n    JSON.parse(text);',
        'bytes that are not UTF-8 take as long as bad JSON',
      ],
      ['byte !== quote || escaped', 'byte !== quote', 'an escaped quote does not end a string'],
      ['byte === backslash && !escaped', 'byte === backslash', 'an escaped backslash escapes nothing'],
      [' || code === 0x09', '', 'a tab is white space'],
    ],
  ),
  ...mutantsOf(
    'src/envelope/sole-member.ts',
    ['test/envelope/sole-member.test.ts', ...envelope],
    [
      ['end !== text.length || ', '', 'nothing follows the only member'],
      [" || unquote(text.slice(nameStart, nameEnd)) !== 'data'", '', 'the member is called data'],
      ['(at - before) % 2 === 0', 'at - before === 2', 'two backslashes escape no quote'],
      ["from === nowhere || text[from] !== '\"'", 'from === nowhere', 'data is a string'],
      [
        'return quote === -1 ? nowhere : quote + 1',
        'return quote + 1',
        'a string has an end',
        'it goes on at position 0, where an opening brace is: neither a colon nor a closing one',
      ],
      [
        'if (from === nowhere) return nowhere;\n  let at',
        'let at',
        'a failed scan stays failed',
        'there is no character at -1, so the scan fails at once',
      ],
    ],
  ),
  ...mutantsOf(
    'src/envelope/credentials.ts',
    ['test/envelope/credentials.test.ts'],
    [
      [
        'timingSafeEqual(a.key.export(), b.key.export())',
        'timingSafeEqual(a.key.export(), b.key.export()) && a.iv.equals(b.iv)',
        'credentials with one key are the same, whatever their IVs',
      ],
      ['key: randomBytes(24)', 'key: Buffer.alloc(24)', 'new keys are random'],
      ['iv: randomBytes(12)', 'iv: Buffer.alloc(12)', 'new IVs are random'],
    ],
  ),
  ...mutantsOf(
    'src/envelope/formats.ts',
    ['test/envelope/credentials.test.ts'],
    [
      ['bytes?.length === length ? bytes', 'bytes !== undefined ? bytes', 'a key has 32 bytes, an IV 16'],
      ['Buffer.from(text.slice(0, 16))', 'Buffer.from(text)', 'a longer IV is cut, as merchants do'],
    ],
  ),
  ...mutantsOf('src/envelope/ciphertext-hints.ts', hints, [
    [
      "  if (ciphertext.length === 0) return 'the string is empty: your encryption failed';\n",
      '',
      'an empty string gets its own hint',
    ],
    ['if (!isWholeBlocks(ciphertext)) return', 'if (false) return', 'a cut ciphertext gets its own hint'],
  ]),
  ...mutantsOf('src/envelope/hints.ts', hints, [
    [
      "if (code === 'envelope_required') return requiredHint(JSON.parse(text));\n",
      '',
      'a hint says what the envelope lacks',
    ],
    ["opener.hint(soleData(text) ?? '')", "opener.hint('')", 'the hint of a string that does not open is told from it'],
    [
      'keyBytes < 32 && keyBytes >= 16 && ivBytes === 32',
      'ivBytes === 32',
      'exchanged headers are told by both lengths',
    ],
  ]),
  ...mutantsOf('src/envelope/diagnosis.ts', hints, [
    [
      "if (usedKey.name === '' && usedIv.name === '') continue;",
      '',
      'the diagnosis names a slip, or none',
      'what was given was tried before, and did not open',
    ],
  ]),
];
