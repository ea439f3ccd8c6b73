import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** The payment core of the scenarios. It charges once for each `Idempotency-Key`, and counts charges by reference. */
export class Core {
  readonly server: Server = createServer((request, response) => void this.#handle(request, response));
  readonly #charges = new Map<string, number>();
  readonly #byKey = new Map<string, string>();

  /** The number of charges with this reference. */
  charges(reference: string): number {
    return this.#charges.get(reference) ?? 0;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const send = (status: number, type: string, body: string, headers: Record<string, string> = {}): void => {
      response.writeHead(status, { 'Content-Type': type, ...headers }).end(body);
    };
    const json = 'application/json';
    const path = `${request.method} ${request.url}`;
    switch (path) {
      case 'POST /api/s2s/charge':
        return send(201, json, this.#charge(text, request.headers['idempotency-key']));
      case 'GET /api/s2s/transactions':
      case 'GET /api/v1/transactions':
        return send(200, json, '{"data":[{"name":"Zoë €😀"}],"has_more":false}');
      case 'HEAD /api/s2s/transactions':
      case 'DELETE /api/s2s/transactions/1':
        return void response.writeHead(path.startsWith('HEAD') ? 200 : 204).end();
      case 'POST /api/s2s/refund':
        return send(422, json, '{"error":{"code":"refund_exceeds_charge"}}');
      case 'GET /api/s2s/report':
        return send(200, 'text/plain; charset=utf-8', 'a;b\r\n1;é\r\n');
      case 'GET /api/s2s/large':
        return send(200, json, JSON.stringify('x'.repeat(100_000)));
      case 'POST /api/s2s/outage':
        this.#charge(text, undefined);
        return send(503, json, '{"error":"maintenance"}', { 'Retry-After': '0' });
      case 'POST /api/s2s/broken':
        this.#charge(text, undefined);
        return void request.socket.destroy();
      case 'POST /api/v1/echo':
        return send(200, request.headers['content-type'] ?? json, text);
      default:
        return send(404, json, `{"error":${JSON.stringify(path)}}`);
    }
  }

  #charge(text: string, key: string | string[] | undefined): string {
    const { reference, amount } = JSON.parse(text) as { reference: string; amount: number };
    const known = typeof key === 'string' ? this.#byKey.get(key) : undefined;
    if (known !== undefined) return known;
    this.#charges.set(reference, this.charges(reference) + 1);
    const body = JSON.stringify({ id: `txn_${this.#charges.size}`, reference, amount });
    if (typeof key === 'string') this.#byKey.set(key, body);
    return body;
  }
}
