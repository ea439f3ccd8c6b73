import { existsSync, readFileSync, readdirSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { extname, join } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { findReadOnly } from '../accounts/file/read-only.ts';
import { rfc3339 } from '../input/value-types.ts';
import type { OperatorsToken } from '../config/config.ts';
import { packageFile } from '../package-file.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AccessEvents } from './access-events.ts';
import { whenLeft } from './client-left.ts';
import { turn } from './owner-queues.ts';
import { WrongTokenDelay } from './wrong-token-delay.ts';
import { TickQueue } from '../tick-queue.ts';
import { readBody, readInput } from './input.ts';
import type { SidecarState } from './overview.ts';
import { isFromOwnPage } from './origin.ts';
import { ApiProblem } from './problems.ts';
import { Sessions, type OpenSession, type SessionHalves } from './sessions.ts';
import { findToken, maySignIn } from './tokens.ts';
import type { EpochMs } from '../times.ts';

/** The folder with the files of the built page. */
const built = packageFile('dist/console/');

/** The content types of the page's files, by their extensions. All files are text. */
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** The path of the console on the listener. */
const consoleRoot = '/console/';

/** Whether a route pattern belongs to the console. The console's files and its sign-in need no token. */
export function isOfConsole(url: string | undefined): boolean {
  return url === '/' || (url !== undefined && `${url}/`.startsWith(consoleRoot));
}

/** The page loads only its own files, calls only its own API, and has no inline scripts or styles. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

const pageHeaders = {
  'Content-Security-Policy': policy,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

const signIn = z.strictObject({ token: z.string().min(1).max(4_096) });

/** The parts of a request that identify its session. */
type Head = Pick<IncomingMessage, 'method' | 'headers'>;

interface ConsoleDependencies {
  /** Called for each request. */
  readonly state: () => {
    readonly console: boolean;
    readonly tokens: readonly OperatorsToken[];
    readonly sidecar: () => Pick<SidecarState, 'settings'>;
  };
  readonly log: Logger;
  readonly clock: () => EpochMs;
  /** Whether the listener uses TLS. */
  readonly secure: boolean;
  readonly access: AccessEvents;
}

/** The header that carries the window's half of a session's secret. */
const keyHeader = 'session-key';

/**
 * Serves the files of the operators' page and manages its sessions. An operator signs in with a token; from then on, requests carry a
 * cookie and a header instead of the token.
 */
export class Console {
  readonly #dependencies: ConsoleDependencies;
  readonly #sessions: Sessions;
  readonly #wrongTokens: WrongTokenDelay;
  /** Processes the bodies of sign-ins, one per turn of the event loop. */
  readonly #reading = new TickQueue(1);

  constructor(dependencies: ConsoleDependencies) {
    this.#dependencies = dependencies;
    this.#sessions = new Sessions(dependencies.clock);
    this.#wrongTokens = new WrongTokenDelay(dependencies.clock);
  }

  /** The token of a request's session; undefined if there is no session, or if another site's page sent the request. */
  findToken(request: Head): OperatorsToken | undefined {
    return this.#findSession(request)?.token;
  }

  /** Ends the sessions of tokens that are no longer in the configuration. Called after every configuration change. */
  configure(): void {
    this.#sessions.keepOnly(this.#dependencies.state().tokens.filter(maySignIn));
  }

  /** Adds the routes of the page and of its sessions to the listener. None of these routes needs a token. */
  async serve(app: FastifyInstance): Promise<void> {
    await app.register(async (page) => {
      page.addHook('onRequest', async (_request, reply) => {
        if (!this.#dependencies.state().console) throw new ApiProblem('not_found', 'The console is off.');
        void reply.headers(pageHeaders);
      });
      page.get('/', async (_request, reply) => reply.redirect(consoleRoot));
      page.get(consoleRoot.slice(0, -1), async (_request, reply) => reply.redirect(consoleRoot));
      this.#serveSessions(page);
      const files = readFiles();
      if (files.size === 0)
        this.#dependencies.log.warn({ folder: built }, 'the console is not built: npm run build:console');
      page.get<{ Params: { '*': string } }>(`${consoleRoot}*`, async ({ params }, reply) => {
        const name = params['*'] || 'index.html';
        const file = files.get(name);
        if (file === undefined) throw new ApiProblem('not_found', 'The console has no such file.');
        return reply.type(`${types[extname(name)]}; charset=utf-8`).send(file);
      });
    });
  }

  #serveSessions(page: FastifyInstance): void {
    const url = `${consoleRoot}session`;
    page.get(url, { config: { operation: 'show_console_session' } }, async (request, reply) => {
      const session = this.#findSession(request);
      return session === undefined ? reply.code(204).send() : this.#viewSession(session);
    });
    const onRequest = async (request: FastifyRequest): Promise<void> => this.#expectOwnPage(request);
    page.post(url, { config: { operation: 'sign_in' }, onRequest }, async (request, reply) => {
      const left = whenLeft(reply.raw);
      // Anyone may send many bodies at once, so only one is processed per turn of the event loop. There is no further pause between bodies,
      // because otherwise an operator's sign-in would have to wait for the pauses after all earlier bodies.
      left.throwIfAborted();
      await turn((start) => this.#reading.add(start), left);
      const token = await this.#tokenIn(request.body).catch(async (error: unknown) => {
        await this.#wrongTokens.wait(request.ip, left);
        throw error;
      });
      if (!maySignIn(token)) throw new ApiProblem('forbidden', 'The role core cannot sign in.');
      request.token = token;
      this.#dependencies.access.signedIn(token, { origin: request.ip, requestId: request.id });
      const { browser, key, expiresAt } = this.#sessions.begin(token, this.#readHalves(request).browser);
      this.#setCookie(request, reply, browser, new Date(expiresAt));
      return { ...(await this.#viewSession({ token, expiresAt })), session_key: key };
    });
    page.delete(url, { config: { operation: 'sign_out' }, onRequest }, async (request, reply) => {
      // A request to sign out succeeds even if there is no session to end.
      if (this.#findSession(request) !== undefined) this.#sessions.end(this.#readHalves(request).browser);
      this.#setCookie(request, reply, '', new Date(0));
      return reply.code(204).send();
    });
  }

  /** Returns the configured token that the body of a sign-in contains. @throws ApiProblem `unauthorized`, or a problem with the body */
  async #tokenIn(body: unknown): Promise<OperatorsToken> {
    const sent = typeof body === 'string' ? readBody(body) : undefined;
    const { token } = readInput(signIn, {}, sent) as z.output<typeof signIn>;
    const found = findToken(`Bearer ${token}`, this.#dependencies.state().tokens);
    if (found === undefined) throw new ApiProblem('unauthorized', 'This is not a token of this sidecar.');
    return found;
  }

  #findSession(request: Head): OpenSession | undefined {
    const { console, tokens } = this.#dependencies.state();
    if (!console || !isFromOwnPage(request.method ?? '', request.headers, this.#dependencies.secure)) return undefined;
    return this.#sessions.find(request, this.#readHalves(request), tokens);
  }

  #expectOwnPage({ method = '', headers }: Head): void {
    if (isFromOwnPage(method, headers, this.#dependencies.secure)) return;
    throw new ApiProblem('forbidden', 'Only the console may sign in and out.');
  }

  #readHalves(request: Head): SessionHalves {
    const { [keyHeader]: key, cookie = '' } = request.headers;
    const name = `${this.#formatCookie(request)}=`;
    // Parse only this cookie, because a request may carry a thousand cookies.
    const browser = cookie.split(/; */).find((pair) => pair.startsWith(name)) ?? name;
    return { browser: browser.slice(name.length), key: typeof key === 'string' ? key : '' };
  }

  #setCookie(request: FastifyRequest, reply: FastifyReply, value: string, expires: Date): void {
    const secure = this.#dependencies.secure ? '; Secure' : '';
    const attributes = `Path=/; Expires=${expires.toUTCString()}; HttpOnly; SameSite=Strict${secure}`;
    void reply.header('Set-Cookie', `${this.#formatCookie(request)}=${value}; ${attributes}`);
  }

  /**
   * The cookie's name. It contains the port, because browsers share cookies between all ports of a host, and several sidecars are often
   * reached through different ports of the same host. The prefix `__Host-` keeps other hosts of the domain from setting the cookie (RFC
   * 6265bis).
   */
  #formatCookie({ headers }: Head): string {
    const port = /:(?<port>[0-9]+)$/.exec(headers.host ?? '')?.groups?.['port'] ?? '';
    return `${this.#dependencies.secure ? '__Host-' : ''}sidecar-session${port}`;
  }

  async #viewSession({ token: { name, role, account }, expiresAt }: OpenSession): Promise<object> {
    const { settings } = this.#dependencies.state().sidecar();
    return {
      name,
      role,
      account: account ?? null,
      expires_at: rfc3339(expiresAt),
      accounts_writable: settings.store.type === 'postgres' || findReadOnly(settings.store.file) === undefined,
    };
  }
}

/** The files of the page, by name. They are kept in memory, because anyone may request them any number of times. */
function readFiles(): ReadonlyMap<string, Buffer> {
  const names = existsSync(built) ? readdirSync(built, { recursive: true, encoding: 'utf8' }) : [];
  const files = names.filter((name) => Object.hasOwn(types, extname(name)));
  return new Map(files.map((name) => [name, readFileSync(join(built, name))]));
}
