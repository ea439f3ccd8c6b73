import type { DestinationStream } from 'pino';
import type { AccessLine } from '../telemetry/access-log.ts';

/** Writes each refused request as a line of text, to be read alongside the payment core's lines; passes on the rest of the log. */
export function withPlainRefusals(log: DestinationStream, write: (line: string) => void): DestinationStream {
  return {
    write: (line) => {
      const { msg, ...entry } = JSON.parse(line) as AccessLine & { readonly msg: string };
      if (msg !== 'request' || entry.code === undefined) log.write(line);
      else write(plainLine(entry));
    },
  };
}

function plainLine({ status, method, route, account, code, reason }: AccessLine): string {
  const why = reason === undefined ? code : `${code} (${reason})`;
  return ['refused      │', status, method, route, account, why].filter((part) => part !== undefined).join(' ');
}
