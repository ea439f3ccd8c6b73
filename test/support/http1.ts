import type { TlsOptions } from 'node:tls';
import { onTestFinished } from 'vitest';
import type { ConnectionHandler, ConnectionLimits } from '../../src/http1/connection-handler.ts';
import type { ServerConnection } from '../../src/http1/connection.ts';
import type { ExchangeHandler, ExchangeOutcome, ServerExchange } from '../../src/http1/exchange.ts';
import { Listener } from '../../src/http1/listener.ts';

/** How a test serves a request. */
export type Serve = (exchange: ServerExchange, server: TestServer) => void;

interface Options extends Partial<ConnectionLimits> {
  readonly serve?: Serve;
  readonly tls?: TlsOptions;
  /** The maximum number of bytes that the server may hold. */
  readonly maxHeld?: number;
  readonly accepts?: boolean;
}

/** A listener that records everything it reports, in order. */
export class TestServer {
  readonly listener: Listener;
  readonly connections: ServerConnection[] = [];
  readonly events: string[] = [];
  readonly errors: unknown[] = [];
  /** The number of connections that were closed because their clients have caused too much work within TLS. */
  exceeded = 0;
  /** The number of closed connections. */
  closed = 0;
  held = 0;
  mostHeld = 0;
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
    const limits = {
      maxHeadSize: 2_000,
      maxFields: 20,
      headTimeout: 20_000,
      idleTimeout: 20_000,
      lingerTimeout: 2_000,
    };
    this.listener = new Listener(
      { limits: { ...limits, ...options }, tls: options.tls, clock: () => 784_111_777_000 },
      (connection) => (options.accepts === false ? undefined : this.#accept(connection)),
    );
  }

  #accept(connection: ServerConnection): ConnectionHandler {
    this.connections.push(connection);
    const serve = this.#options.serve ?? echo;
    return {
      onRequest: (exchange) => {
        const { head, fault = '' } = exchange;
        this.events.push(head === undefined ? fault : `${head.method} ${head.target}`);
        if (head !== undefined) {
          serve(exchange, this);
          return;
        }
        exchange.handler = this.outcomes();
        exchange.send(400, [], fault);
      },
      onSuspend: (resume) => void setImmediate(resume),
      onHeld: (change) => {
        if (change > 0 && this.held + change > (this.#options.maxHeld ?? Infinity)) return false;
        this.held += change;
        this.mostHeld = Math.max(this.mostHeld, this.held);
        return true;
      },
      onExcess: () => (this.exceeded += 1),
      onError: (error) => this.errors.push(error),
      onClose: () => {
        this.closed += 1;
      },
    };
  }

  /** A handler that records outcomes. */
  outcomes(more: Partial<ExchangeHandler> = {}): ExchangeHandler {
    return {
      onDrain: () => this.events.push('drain'),
      onDeadline: () => this.events.push('deadline'),
      onClose: (outcome: ExchangeOutcome) => this.events.push(outcome),
      ...more,
    };
  }
}

/** Responds with the method, the target and the body, once the body is complete. */
export const echo: Serve = (exchange, server) => {
  exchange.handler = server.outcomes();
  const { method, target } = exchange.head ?? {};
  let body = '';
  const respond = (): void => exchange.send(200, [], `${method} ${target} ${body}`);
  if (exchange.wholeBody !== undefined) {
    body = exchange.wholeBody.toString('latin1');
    respond();
    return;
  }
  exchange.readBody({
    onData: (piece) => (body += piece.toString('latin1')),
    onEnd: respond,
    onFault: (fault) => {
      server.events.push(fault);
      exchange.send(400, [], fault);
    },
  });
};

/** Keeps exchanges open, so that the test can respond to them. */
export function keepIn(open: ServerExchange[]): Serve {
  return (exchange, server) => {
    exchange.handler = server.outcomes();
    open.push(exchange);
  };
}

/** Starts a listener that is closed when the test is over. */
export async function startServer(
  options: Options = {},
  host = '127.0.0.1',
): Promise<TestServer & { readonly port: number }> {
  const server = new TestServer(options);
  const { listener } = server;
  onTestFinished(() => {
    listener.close();
    listener.closeAll();
  });
  const { port } = await listener.listen({ host, port: 0 });
  return Object.assign(server, { port });
}
