import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { problemDocument } from '../src/proxy/respond/problem.ts';
import { Refusal, findRefusal } from '../src/errors.ts';
import { knownMerchants } from './exchanges.ts';
import { hasCommand } from './machine.ts';
import { peerAccounts } from './merchants.ts';
import type { PeerRefusal, PeerSettings } from './peers/settings.ts';
import type { Command } from './processes.ts';
import { project, sidecarCommand } from './sidecar.ts';
import type { Workload } from './workloads.ts';

/** Where a peer runs. */
export interface Place {
  /** A folder for this peer alone. */
  readonly directory: string;
  readonly port: number;
  readonly upstream: number;
}

/** A server that the benchmark can measure. */
export interface Peer {
  readonly name: string;
  readonly title: string;
  /** Whether the peer supports API keys and envelopes. If not, it is measured only with traffic that is passed through. */
  readonly identifies: boolean;
  /** The size in bytes of the largest body with which the peer is measured, because it buffers bodies. */
  readonly mostBytes?: number;
  /** On Node, V8 continues to optimise for several seconds under load. Other peers reach full speed after a thousand requests. */
  readonly runsOnNode: boolean;
  /** The packages to install if the peer cannot run. */
  missing(): string | undefined;
  /** Writes the necessary files and returns the command that starts the peer. */
  prepare(place: Place): Command;
}

export function takes(peer: Peer, { kind, answered }: Workload): boolean {
  return (peer.identifies || kind === 'plain') && answered <= (peer.mostBytes ?? Infinity);
}

const sources = join(project, 'bench/peers');

/** A peer that runs the sidecar of this checkout, or of another one. */
function sidecar(name: string, title: string, checkout: string): Peer {
  return {
    name,
    title,
    identifies: true,
    runsOnNode: true,
    missing: () => (existsSync(join(checkout, 'dist/main.js')) ? undefined : `npm run build (in ${checkout})`),
    prepare: (place) => sidecarCommand(checkout, { ...place, merchants: knownMerchants }),
  };
}

const nginxLua: Peer = {
  name: 'nginx-lua',
  title: 'nginx + LuaJIT + OpenSSL',
  identifies: true,
  runsOnNode: false,
  missing: () => {
    const files = ['/usr/lib/nginx/modules/ngx_http_lua_module.so', '/usr/lib/x86_64-linux-gnu/lua/5.1/cjson.so'];
    const complete = hasCommand('nginx') && files.every((file) => existsSync(file));
    return complete ? undefined : 'apt-get install nginx libnginx-mod-http-lua lua-cjson';
  },
  prepare: (place) => nginxCommand('nginx-lua', place),
};

const nginx: Peer = {
  name: 'nginx',
  title: 'nginx alone',
  identifies: false,
  runsOnNode: false,
  missing: () => (hasCommand('nginx') ? undefined : 'apt-get install nginx'),
  prepare: (place) => nginxCommand('nginx', place),
};

const go: Peer = {
  name: 'go',
  title: 'Go ReverseProxy + crypto/aes',
  identifies: true,
  runsOnNode: false,
  missing: () => (hasCommand('go') ? undefined : 'apt-get install golang-go'),
  prepare: (place) => {
    const program = join(place.directory, 'peer');
    const built = spawnSync('go', ['build', '-o', program, '.'], { cwd: join(sources, 'go'), encoding: 'utf8' });
    if (built.status !== 0) throw new Error(`go build failed: ${built.stderr}`);
    // Limits the peer to one core, like all others.
    return { command: program, args: [writeSettings(place)], env: { GOMAXPROCS: '1' } };
  },
};

const httpProxy: Peer = {
  name: 'http-proxy',
  title: 'Node http-proxy with handlers',
  identifies: true,
  runsOnNode: true,
  missing: () => undefined,
  prepare: (place) => ({
    command: process.execPath,
    args: [fileURLToPath(new URL('peers/http-proxy/server.ts', import.meta.url)), writeSettings(place)],
  }),
};

/** The lowest cost of the same bytes on Node. The ratio to it shows what the sidecar adds, on any machine. */
const floor: Peer = {
  name: 'floor',
  title: 'the floor',
  identifies: true,
  mostBytes: 65_536,
  runsOnNode: true,
  missing: () => undefined,
  prepare: (place) => ({
    command: process.execPath,
    args: [fileURLToPath(new URL('peers/floor/server.ts', import.meta.url)), writeSettings(place)],
  }),
};

/** @param baseline another checkout of the sidecar, already compiled, to compare with */
export function peersOf(baseline: string | undefined): Peer[] {
  return [
    sidecar('sidecar', 'envelope-sidecar', project),
    ...(baseline === undefined ? [] : [sidecar('baseline', `envelope-sidecar in ${baseline}`, baseline)]),
    floor,
    nginxLua,
    go,
    httpProxy,
    nginx,
  ];
}

function nginxCommand(name: string, place: Place): Command {
  const values: Readonly<Record<string, string>> = {
    user: userInfo().username,
    port: String(place.port),
    upstream: String(place.upstream),
    directory: place.directory,
    peer: join(sources, name),
    settings: writeSettings(place),
  };
  const template = readFileSync(join(sources, name, 'nginx.conf'), 'utf8');
  const file = join(place.directory, 'nginx.conf');
  writeFileSync(
    file,
    template.replaceAll(/@(\w+)@/g, (_, key: string) => values[key] ?? ''),
  );
  mkdirSync(join(place.directory, 'logs'), { recursive: true });
  return { command: 'nginx', args: ['-p', place.directory, '-c', file] };
}

function writeSettings({ directory, port, upstream }: Place): string {
  const settings: PeerSettings = {
    port,
    upstream,
    accessLog: join(directory, 'access.log'),
    accounts: peerAccounts(knownMerchants),
    refusals: {
      invalid_api_key: refusal('invalid_api_key'),
      envelope_malformed: refusal('envelope_malformed'),
      decryption_failed: refusal('decryption_failed'),
    },
  };
  const file = join(directory, 'settings.json');
  writeFileSync(file, JSON.stringify(settings));
  return file;
}

function refusal(code: keyof PeerSettings['refusals']): PeerRefusal {
  const place = '@request-id@';
  const [before = '', after = ''] = problemDocument(new Refusal(code), {
    requestId: place,
    errorsPage: undefined,
  })
    .toString()
    .split(place);
  return { status: findRefusal(code).status, body: [before, after] };
}
