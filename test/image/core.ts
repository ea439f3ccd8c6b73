import { createServer } from 'node:http';
import { Readable } from 'node:stream';

/**
 * A payment core that runs on Node in its own container. Its response describes the request. The query can delay the
 * response (`delay`, in milliseconds) or make it long (`size`, in bytes).
 */
const core = createServer((req, res) => {
  const { pathname, searchParams } = new URL(req.url ?? '/', 'http://core');
  let received = 0;
  req.on('data', (chunk: Buffer) => (received += chunk.length));
  req.on('end', () => {
    const seen = { path: pathname, account: req.headers['x-account-id'], received };
    const size = Number(searchParams.get('size') ?? 0);
    const [begin = '', end = ''] = JSON.stringify({ ...seen, padding: '|' }).split('|');
    const response = (): void => {
      const length = Buffer.byteLength(begin) + size + end.length;
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': length });
      Readable.from(pieces(begin, size, end)).pipe(res);
    };
    setTimeout(response, Number(searchParams.get('delay') ?? 0));
  });
});
core.listen(3000, '0.0.0.0');
process.on('SIGTERM', () => process.exit());

/** Generates a long response while it is sent, so that many long responses at once do not fill the memory of this container. */
function* pieces(begin: string, size: number, end: string): Generator<string> {
  yield begin;
  for (let left = size; left > 0; left -= 65_536) yield 'x'.repeat(Math.min(left, 65_536));
  yield end;
}
