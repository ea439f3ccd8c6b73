import { createServer } from 'node:http';

/**
 * A payment core that runs in a container of its own, on that container's Node. It answers with what it saw; the query
 * asks for an answer that comes late (`delay`, milliseconds) or is long (`size`, bytes).
 */
const core = createServer((req, res) => {
  const { pathname, searchParams } = new URL(req.url ?? '/', 'http://core');
  let received = 0;
  req.on('data', (chunk: Buffer) => (received += chunk.length));
  req.on('end', () => {
    const seen = { path: pathname, account: req.headers['x-account-id'], received };
    const padding = 'x'.repeat(Number(searchParams.get('size') ?? 0));
    const body = JSON.stringify({ ...seen, padding });
    const answer = (): void => {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }).end(body);
    };
    setTimeout(answer, Number(searchParams.get('delay') ?? 0));
  });
});
core.listen(3000, '0.0.0.0');
process.on('SIGTERM', () => process.exit());
