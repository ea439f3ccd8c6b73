import type { AddressInfo } from 'node:net';
import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';
import type { EpochMs } from '../times.ts';

/** The log of the process, and the destination of its finished lines. */
export type Logger = PinoLogger & { readonly destination: Pick<DestinationStream, 'write'> };

/** Creates the log of the process: one JSON object per line, with RFC 3339 times and level names. */
export function createLogger(level: string, destination: DestinationStream): Logger {
  const log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // Only these members of an error are logged, because a library may have put data, such as addresses or input, into other members.
      serializers: {
        err: (error: unknown) =>
          error instanceof Error
            ? { code: 'code' in error ? error.code : undefined, message: error.message, stack: error.stack }
            : { message: String(error) },
      },
    },
    destination,
  );
  return Object.assign(log, { destination });
}

/** Logs a listener's address once the listener is bound. */
export async function logListening(log: Logger, listener: string, listening: Promise<AddressInfo>): Promise<void> {
  const { address, port } = await listening.catch((error: Error) => {
    error.message = `the ${listener} listener: ${error.message}`;
    throw error;
  });
  log.info({ listener, address, port }, 'listening');
}

/** Logs expired certificates. They are still used, because the previous certificates may have expired too. */
export function logExpired(
  log: Logger,
  certificates: readonly { readonly certificate: string; readonly expiresAt: EpochMs }[],
  now: EpochMs,
): void {
  for (const { certificate, expiresAt } of certificates) {
    if (expiresAt <= now) log.error({ member: certificate }, 'the certificate has expired');
  }
}
