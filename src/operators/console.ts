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
import { WrongTokenDelay } from './wrong-token-delay.ts';
import { TickQueue } from '../proxy/capacity/queues.ts';
import { readBody, readInput } from './input.ts';
import type { SidecarState } from './overview.ts';
import { isFromOwnPage } from './origin.ts';
import { ApiProblem } from './problems.ts';
import { Sessions, type OpenSession, type SessionHalves } from './sessions.ts';
import { findToken, maySignIn } from './tokens.ts';
import type { EpochMs } from '../times.ts';

/** The folder of the built page. */
const built = packageFile('dist/console/');

/** The types of the page's files, which are all text, by their extensions. */
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** The path of the console on the listener. */
const consoleRoot = '/console/';

/** Whether a route pattern is the console's: its files and its sign-in need no token. */
export function isOfConsole(url: string | undefined): boolean {
  return url === '/' || (url !== undefined && `${url}/`.startsWith(consoleRoot));
}

/** The page loads only its own files and asks only its own API; it has no inline script or style. */
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
  /** Whether the listener speaks TLS. */
  readonly secure: boolean;
  readonly access: AccessEvents;
}

/** The header with the half of a session that its window keeps. */
const keyHeader = 'session-key';

/** The operators' page: its files, and sessions that are opened with a token and carried by a cookie and a header. */
export class Console {
  readonly #dependencies: ConsoleDependencies;
  readonly #sessions: Sessions;
  readonly #wrongTokens: WrongTokenDelay;
  /** Takes the bodies of sign-ins, one in a turn of the event loop. */
  readonly #reading = new TickQueue(1);

  constructor(dependencies: ConsoleDependencies) {
    this.#dependencies = dependencies;
    this.#sessions = new Sessions(dependencies.clock);
    this.#wrongTokens = new WrongTokenDelay(dependencies.clock);
  }

  /** The token of a request's session; undefined without a session, or if another site's page sent the request. */
  findToken(request: Head): OperatorsToken | undefined {
    return this.#findSession(request)?.token;
  }

  /** Ends the sessions of tokens that the configuration no longer has. Called after each change of it. */
  configure(): void {
    this.#sessions.keepOnly(this.#dependencies.state().tokens.filter(maySignIn));
  }

  /** Adds the page and its sessions to the listener. Nothing here needs a token. */
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
      // Strangers may send many bodies at once. There is no rest after a body: an operator would wait for the rests after all of theirs.
      await new Promise<void>((resolve) => void this.#reading.add(resolve));
      left.throwIfAborted();
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
      // Signing out without a session is not an error, but ends no session.
      if (this.#findSession(request) !== undefined) this.#sessions.end(this.#readHalves(request).browser);
      this.#setCookie(request, reply, '', new Date(0));
      return reply.code(204).send();
    });
  }

  /** @throws ApiProblem `unauthorized`, or what is wrong with the body */
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
    // Only this cookie is read: a stranger may send a thousand.
    const browser = cookie.split(/; */).find((pair) => pair.startsWith(name)) ?? name;
    return { browser: browser.slice(name.length), key: typeof key === 'string' ? key : '' };
  }

  #setCookie(request: FastifyRequest, reply: FastifyReply, value: string, expires: Date): void {
    const secure = this.#dependencies.secure ? '; Secure' : '';
    const attributes = `Path=/; Expires=${expires.toUTCString()}; HttpOnly; SameSite=Strict${secure}`;
    void reply.header('Set-Cookie', `${this.#formatCookie(request)}=${value}; ${attributes}`);
  }

  /**
   * The cookie's name. It contains the port, because browsers share cookies between ports, and several sidecars are
   * often reached through ports of one machine. `__Host-` keeps other hosts of a domain from setting it (RFC 6265bis).
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

/** The files of the page, by name. In memory, because strangers may request them any number of times. */
function readFiles(): ReadonlyMap<string, Buffer> {
  const names = existsSync(built) ? readdirSync(built, { recursive: true, encoding: 'utf8' }) : [];
  const files = names.filter((name) => Object.hasOwn(types, extname(name)));
  return new Map(files.map((name) => [name, readFileSync(join(built, name))]));
}
