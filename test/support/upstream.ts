import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Defer } from './file-wide.ts';
import { listen } from './listen.ts';

/** A request as the upstream saw it, with its complete body. */
export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** A real upstream that records its requests. */
export interface TestUpstream {
  readonly origin: string;
  readonly port: number;
  readonly server: Server;
  /** Requests that arrived completely. */
  readonly seen: readonly SeenRequest[];
  /** The number of requests of which at least the head has arrived. */
  readonly heads: () => number;
}

/** Responds to a complete request; by default with `{"ok":true}`. */
export type Respond = (seen: SeenRequest, res: ServerResponse, req: IncomingMessage) => void;

const ok: Respond = (_seen, res) => {
  res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 11 }).end('{"ok":true}');
};

/** Starts an upstream that reads each request completely and then responds. It is closed when the test is over. */
export async function startUpstream(respond: Respond = ok, defer?: Defer): Promise<TestUpstream> {
  const seen: SeenRequest[] = [];
  const upstream = await startRawUpstream((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = req;
      const request = { method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString('latin1') };
      seen.push(request);
      respond(request, res, req);
    });
  }, defer);
  return { ...upstream, seen };
}

/** Starts an upstream whose handler gets the request as soon as its head has arrived. */
export async function startRawUpstream(
  handler: (req: IncomingMessage, res: ServerResponse) => void,
  defer?: Defer,
): Promise<Omit<TestUpstream, 'seen'>> {
  let heads = 0;
  const server = createServer((req, res) => {
    heads += 1;
    handler(req, res);
  });
  const port = await listen(server, 0, defer);
  return { origin: `http://127.0.0.1:${port}`, port, server, heads: () => heads };
}
