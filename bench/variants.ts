import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { build, type Plugin } from 'vite';
import { knownMerchants } from './exchanges.ts';
import type { Peer } from './peers.ts';
import { project, sidecarCommand } from './sidecar.ts';

/** A part of the sidecar that a build for measuring leaves out. */
interface Part {
  readonly name: string;
  /** By source file: a text that is there exactly once, and its replacement. */
  readonly changes: Readonly<Record<string, readonly (readonly [from: string, to: string])[]>>;
}

/** The parts that the floor lacks or has in a simpler form; that form replaces them. */
export const parts: readonly Part[] = [
  {
    name: 'log',
    changes: { 'src/telemetry/access-log.ts': [['if (levels[level] < this.#log.levelVal) return;', 'return;']] },
  },
  {
    name: 'metrics',
    changes: {
      'src/telemetry/metrics.ts': [
        ['const method = line.method', 'return;\n    const method = line.method'],
        ['this.#envelopes[environment][operation][outcome].value++;', 'return;'],
      ],
      'src/telemetry/traffic-recorder.ts': [
        ['this.recent.add(line, request?.stats.opened === true, isUnexpected, now);', ''],
      ],
    },
  },
  {
    name: 'guard of the head',
    changes: {
      'src/gateway/request-head.ts': [
        ['req.rawHeaders.length > 2 * headers || headSize(req) > header', 'false'],
        ['!acceptableHost.test(value)', 'false'],
        ['const path = pathOf(target);', "const path = target.split('?', 1)[0];"],
      ],
    },
  },
  {
    name: 'look-up of the key',
    changes: {
      'src/gateway/look-ups.ts': [['if (directory.holds(hash)) return', 'return']],
      'src/gateway/authentication.ts': [
        ['const key = bearerToken(authorization);', 'const key = authorization.slice(7);'],
        ['key !== undefined && isWellFormed(key) ? key : undefined', 'key'],
        ['found.key.prefix === prefixOf(key) && isValidKey(found.key, now)', 'true'],
      ],
    },
  },
  {
    name: 'envelope',
    changes: {
      'src/envelope/envelope.ts': [
        [
          "const data = soleData(body.toString('latin1'));\n  if (data === undefined) return whyNoCiphertext(body);",
          'const data = /^\\{"data":"([^"\\\\]*)"\\}$/.exec(body.toString(\'latin1\'))?.[1] ?? \'\';',
        ],
      ],
      'src/envelope/json.ts': [['isUtf8(bytes) ? text : `${text}\\0`', 'text']],
    },
  },
  {
    name: 'one cipher for many messages',
    changes: {
      'src/envelope/aes-cbc.ts': [
        [
          'const length = encryptedLength(plaintext.length);',
          'const once = createCipheriv(algorithm, this.#key, this.#iv);\n' +
            '    if (plaintext.length >= 0) return Buffer.concat([once.update(plaintext), once.final()]);\n' +
            '    const length = encryptedLength(plaintext.length);',
        ],
        [
          'const decipher = this.#decrypting ?? createDecipheriv',
          'const once = createDecipheriv(algorithm, this.#key, this.#iv);\n' +
            '    try {\n' +
            '      return { plaintext: Buffer.concat([once.update(ciphertext), once.final()]), paddingOk: true };\n' +
            '    } catch {}\n' +
            '    const decipher = this.#decrypting ?? createDecipheriv',
        ],
      ],
    },
  },
  {
    name: 'client of the upstream',
    changes: {
      'src/upstream/upstream.ts': [
        ['import { Call,', "import { BareClient } from '../../bench/bare-client.ts';\nimport { Call,"],
        [
          'readonly #idle: Connection[] = [];',
          'readonly #idle: Connection[] = [];\n  readonly #bare = new BareClient();',
        ],
        [
          'const call = new Call(request, this.#address.authority, handler);\n    this.#send(call);\n    return call;',
          'return this.#bare.send(this.#address.port, request, handler);',
        ],
      ],
    },
  },
];

/** The check for traces. The floor has none either, and both run without traces by default. */
export const tracingCalls: Part = {
  name: 'a build that never looks for it',
  changes: {
    'src/gateway/admission.ts': [
      ['request.trace = this.#recorder.trace(head, () => rules.trusts(peerOf(request)), request.stats.startedAt);', ''],
    ],
    'src/gateway/access-line.ts': [['request.trace?.traceId ?? ', '']],
    'src/gateway/forward.ts': [
      [
        'request.trace === undefined ? [...head.headers] : traced(head.headers, request.trace, now)',
        '[...head.headers]',
      ],
    ],
    'src/telemetry/traffic-recorder.ts': [['request?.trace?.end(line);', '']],
  },
};

/**
 * The text of a source file without a part.
 *
 * @throws if the source has changed so that the part cannot be found
 */
export function switchedOff({ name, changes }: Part, file: string, source: string): string {
  return (changes[file] ?? []).reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`bench/variants.ts: ${name} is not found in ${file}: ${from}`);
    return text.replace(from, () => to);
  }, source);
}

/** Builds the sidecar without some parts, for comparison with the complete one. */
export async function variant(sidecar: Peer, name: string, off: readonly Part[], directory: string): Promise<Peer> {
  const checkout = join(directory, name.replaceAll(' ', '-'));
  mkdirSync(checkout, { recursive: true });
  for (const file of ['Dockerfile', 'package.json']) cpSync(join(project, file), join(checkout, file));
  symlinkSync(join(project, 'node_modules'), join(checkout, 'node_modules'));
  const switching: Plugin = {
    name: 'switch-parts-off',
    enforce: 'pre',
    transform(code, id) {
      const file = id.slice(project.length);
      return off.reduce((text, part) => switchedOff(part, file, text), code);
    },
  };
  const configFile = join(project, 'vite.sidecar.config.ts');
  const outDir = join(checkout, 'dist');
  await build({ root: project, configFile, plugins: [switching], build: { outDir, sourcemap: false } });
  return {
    ...sidecar,
    name,
    title: name,
    prepare: (place) => sidecarCommand(checkout, { ...place, merchants: knownMerchants }),
  };
}
