import { METHODS } from 'node:http';

/** A request as a reader understands it. Each character is one byte. */
export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  readonly minor: number;
  readonly fields: readonly string[];
  readonly keepAlive: boolean;
  body: string;
  complete: boolean;
}

/** Node's binding to llhttp, which node:http uses. */
interface Parser {
  initialize(type: number, resource: object, maxHeaderSize: number, leniency: number): void;
  execute(bytes: Buffer): number | Error;
  [event: number]: unknown;
}

interface Binding {
  readonly HTTPParser: (new () => Parser) & Readonly<Record<string, number>>;
}

const { HTTPParser } = process.getBuiltinModule('_http_common') as unknown as Binding;

const maxHeaderSize = 1_000_000;

/** Reads the bytes of a connection with strict llhttp, as a second opinion. */
export class Llhttp {
  readonly #parser = new HTTPParser();
  #requests: ReadRequest[] = [];
  #fields: string[] = [];
  #target = '';
  /** The methods, indexed by llhttp's numbers, which Node does not export. */
  readonly #methods: string[] = [];
  #method = 0;

  constructor() {
    const on = (event: string, listener: (...values: never[]) => unknown): void => {
      this.#parser[HTTPParser[event] ?? NaN] = listener;
    };
    // llhttp delivers fields in groups of 32. Fields that follow the head are trailers.
    on('kOnHeaders', (fields: readonly string[], target: string) => {
      this.#fields.push(...fields);
      this.#target += target;
    });
    on('kOnHeadersComplete', (...values: never[]) => this.#onHead(...(values as unknown as HeadValues)));
    on('kOnBody', (piece: Buffer) => {
      const request = this.#requests.at(-1);
      if (request !== undefined) request.body += piece.toString('latin1');
    });
    on('kOnMessageComplete', () => {
      const request = this.#requests.at(-1);
      if (request !== undefined) request.complete = true;
      this.#fields = [];
      this.#target = '';
    });
    for (const method of METHODS) {
      this.read(Buffer.from(`${method} / HTTP/1.1\r\n\r\n`));
      this.#methods[this.#method] = method;
    }
  }

  /** The requests on a connection, up to the first fault. */
  read(bytes: Buffer): { readonly requests: readonly ReadRequest[]; readonly fault: string | undefined } {
    this.#requests = [];
    this.#fields = [];
    this.#target = '';
    this.#parser.initialize(HTTPParser['REQUEST'] ?? NaN, {}, maxHeaderSize, 0);
    const result = this.#parser.execute(bytes);
    const fault = result instanceof Error ? (result as Error & { code: string }).code : undefined;
    return { requests: this.#requests, fault };
  }

  #onHead(...[, minor, fields, method, target, , , , keepAlive]: HeadValues): number {
    this.#method = method;
    const request = {
      method: this.#methods[method] ?? '',
      target: this.#target + (target ?? ''),
      minor,
      fields: [...this.#fields, ...(fields ?? [])],
      keepAlive,
      body: '',
      complete: false,
    };
    this.#fields = [];
    this.#target = '';
    this.#requests.push(request);
    return 0;
  }
}

type HeadValues = readonly [
  major: number,
  minor: number,
  fields: readonly string[] | undefined,
  method: number,
  target: string | undefined,
  status: undefined,
  reason: undefined,
  upgrade: boolean,
  keepAlive: boolean,
];
