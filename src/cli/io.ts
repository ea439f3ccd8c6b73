import type { Readable } from 'node:stream';
import type { DestinationStream } from 'pino';
import type { Keyring } from '../accounts/keyring.ts';
import type { KmsSettings } from '../config/config.ts';
import type { Output } from './output.ts';
import type { EpochMs } from '../times.ts';

/** The parts of the process that a command uses. */
export interface CliIo {
  readonly stdin: Readable;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The destination of the log. */
  readonly log: DestinationStream;
  /** The sidecar's version. */
  readonly version: string;
  readonly clock: () => EpochMs;
  /** Returns the keyring that wraps and unwraps master keys. If `kms` is undefined, master keys are in the clear. */
  readonly keyring: (kms: KmsSettings | undefined) => Keyring;
  onSignal(signal: Signal, handler: () => void): void;
}

/** The signals that a running sidecar handles. */
export type Signal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

/** Exit codes of all commands. 78 is EX_CONFIG in sysexits.h. */
export const exitCodes = { done: 0, failed: 1, usage: 2, configuration: 78 } as const;

/** The path of the configuration if the command line does not contain one. */
export function defaultConfig(env: CliIo['env']): string {
  return env['SIDECAR_CONFIG'] ?? 'config/sidecar.yaml';
}
