import { mutantsOf, type Mutant } from './mutant.ts';

const parser = ['test/upstream/response-parser.test.ts'];

/** The parser of the upstream's responses. */
export const parserMutants: readonly Mutant[] = [
  ...mutantsOf('src/upstream/response-parser.ts', parser, [
    ["if (this.#state === 'idle') return 'UNEXPECTED_DATA';\n", '', 'bytes without a request are a fault'],
    ['if (this.#at < chunk.length) this.reusable = false;\n', '', 'bytes behind a response end its connection'],
    ['const maxHeadSize = 32_768;', 'const maxHeadSize = 32_769;', 'a head has at most 32 KiB'],
    ['const maxHeadSize = 32_768;', 'const maxHeadSize = 32_767;', 'a head may have 32 KiB'],
    ['const maxChunkHeadSize = 256;', 'const maxChunkHeadSize = 257;', 'a chunk head has at most 256 bytes'],
    [
      "const end = this.#take(chunk, '\\r\\n', 0);",
      "const end = this.#take(chunk, '\\r\\n', 2);",
      'CRLF stands right behind a chunk of a response',
    ],
    ['if (!headForm.test(head))', 'if (false)', 'a head has the form of one'],
    ['this.reusable = isHttp11;', '', 'HTTP/1.0 ends its connection'],
    [
      'length === undefined && /^\\d{1,15}$/.test(value) ?',
      '/^\\d{1,15}$/.test(value) ?',
      'a response states its length once',
    ],
    ['length === undefined && isHttp11 &&', 'isHttp11 &&', 'a response has one framing'],
    ['if (/\\bclose\\b/i.test(value)) this.reusable = false;\n', '', 'Connection: close ends the connection'],
    ['length === undefined && /^\\d{1,15}$/.test(value) ?', 'length === undefined ?', 'a length is digits'],
    ["isHttp11 && value.toLowerCase() === 'chunked' ?", 'isHttp11 ?', 'a coding is chunked'],
    [
      "isHttp11 && value.toLowerCase() === 'chunked' ?",
      "value.toLowerCase() === 'chunked' ?",
      'HTTP/1.0 knows no chunks',
    ],
    ["return 'NO_LENGTH';\n", "this.#state = 'idle';\n", 'a response that ends with its connection is refused'],
    [
      "      this.reusable = false;\n      this.#state = 'idle';",
      "      this.#state = 'idle';",
      'behind a response without a body the connection carries nothing',
    ],
    [' || status > 599) return', ') return', 'a status is below 600'],
    [
      "if (size === undefined) return 'BAD_CHUNK';\n",
      'if (size === undefined) return undefined;\n',
      'a chunk head has the form of one',
    ],
    ["else if (!trailerForm.test(trailer)) return 'BAD_TRAILER';\n", '', 'a trailer has the form of a field'],
    ['    this.#headRoom = Math.max(0, this.#headRoom - trailer.length - 2);\n', '', 'trailers are bounded'],
    [
      '    this.#headRoom = Math.max(0, this.#headRoom - head.length - 4);\n',
      '',
      'informational responses are bounded',
    ],
    ['    this.keepAlive = undefined;\n', '', 'each response says anew how long its connection is kept'],
    ['{1,12})(?:;', '{1,16})(?:;', 'a chunk size is a safe integer'],
    [
      "if (!'HTTP/1.'.startsWith(held.toString('latin1', 0, Math.min(7, length)))) return false;\n",
      '',
      'what is not HTTP is refused before its end',
    ],
    ["method !== 'HEAD' && status", 'status', 'a response to HEAD has no body'],
    [' && status !== 304', '', '304 has no body'],
    [
      'Math.min(chunk.length - this.#at, this.#remaining)',
      'chunk.length - this.#at',
      'a body is no longer than its length',
    ],
    [
      'const part = Buffer.allocUnsafe(length);\n    this.#at += chunk.copy(part, 0, this.#at, this.#at + length);',
      'const part = chunk.subarray(this.#at, this.#at + length);\n    this.#at += length;',
      'what outlives the read is a copy',
    ],
  ]),
];
