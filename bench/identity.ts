import { connect } from 'node:net';
import { ResponseReader, headerOf, type Response } from './response-reader.ts';
import { brokenRequests, exchangesOf, type Expected } from './exchanges.ts';
import type { Workload } from './workloads.ts';

/** The number of merchants whose exchanges are checked. */
const tried = 5;

/**
 * Sends a server the requests of the following measurement. Compares each byte of its responses, and of the requests
 * that reach the upstream, with what is expected.
 *
 * @param identifies whether the server knows API keys, and therefore tells the upstream the account
 * @returns the differences
 */
export async function faultsOf(port: number, workload: Workload, identifies: boolean): Promise<string[]> {
  const faults: string[] = [];
  for (const { request, expected } of exchangesOf(workload, true).slice(0, tried)) {
    faults.push(...compare(await ask(port, request), expected(), identifies));
  }
  if (workload.kind === 'enveloped') {
    for (const { fault, request } of brokenRequests()) {
      const { status } = await ask(port, request);
      if (status !== 400) faults.push(`an envelope that ${fault} is answered with ${status}`);
    }
  }
  return [...new Set(faults)];
}

type Comparable = string | number | boolean | undefined;

function compare({ status, head, body }: Response, expected: Expected, identifies: boolean): string[] {
  const { forwarded } = expected;
  const pairs: readonly (readonly [string, Comparable, Comparable])[] = [
    ['status', status, expected.status],
    ['content type', headerOf(head, 'content-type'), expected.contentType],
    ['envelope header', headerOf(head, 'envelope'), expected.sealed ? 'sealed' : undefined],
    ['SHA-256 of what the upstream got', headerOf(head, 'x-seen-sha256'), forwarded?.sha256],
    [
      'account the upstream was told',
      identifies ? headerOf(head, 'x-seen-account') : undefined,
      identifies ? forwarded?.account : undefined,
    ],
    ['body is right', body.equals(expected.body), true],
  ];
  return pairs.filter(([, is, shall]) => is !== shall).map(([what, is, shall]) => `${what}: ${is}, not ${shall}`);
}

/** Sends one request on a separate connection. */
function ask(port: number, request: Buffer): Promise<Response> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(request));
    const reader = new ResponseReader((response) => {
      socket.destroy();
      resolve(response);
    }, true);
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the connection was closed without a whole response')));
  });
}
