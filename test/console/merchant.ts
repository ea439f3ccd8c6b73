import { createCipheriv, createDecipheriv } from 'node:crypto';
import { expect } from 'vitest';
import { send, type Response } from '../support/client.ts';

/** A key and an IV, as the page shows them. */
export interface HandedOver {
  readonly key: string;
  readonly iv: string;
}

/** A merchant's own code, which uses plain `node:crypto` and the merchants' listener. */
export class Merchant {
  readonly #port: number;
  readonly #host: string;

  constructor(port: number, host = '127.0.0.1') {
    this.#port = port;
    this.#host = host;
  }

  /** Charges in plain JSON. */
  charge(key: string, body = '{"amount":1000}'): Promise<Response> {
    const headers = { 'Content-Type': 'application/json', Host: this.#host };
    return send({ port: this.#port }, 'POST /api/s2s/charge', { key, body, headers });
  }

  /** Charges in an envelope. */
  sealed(key: string, { key: aesKey, iv }: HandedOver): Promise<Response> {
    const cipher = createCipheriv('aes-256-cbc', aesKey, iv);
    const data = cipher.update('{"amount":1000}', 'utf8', 'hex') + cipher.final('hex');
    return this.charge(key, JSON.stringify({ data }));
  }
}

/** The text in a sealed response. */
export function opened({ headers, body }: Response, { key, iv }: HandedOver): string {
  expect(headers['envelope']).toBe('sealed');
  const { data } = JSON.parse(body) as { data: string };
  const decipher = createDecipheriv('aes-256-cbc', key, iv);
  const sealed = Buffer.from(data, /^[0-9a-f]+$/.test(data) ? 'hex' : 'base64');
  return decipher.update(sealed, undefined, 'utf8') + decipher.final('utf8');
}

/** The `code` of a refusal; undefined for other responses. */
export function codeOf({ body }: Response): unknown {
  return (JSON.parse(body) as { code?: unknown }).code;
}
