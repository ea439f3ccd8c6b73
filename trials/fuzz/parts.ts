import { responsePart } from './response/response.ts';
import { runPart, type PartReport } from './campaign.ts';
import { envelopePart } from './envelope/envelope.ts';
import { jsonPart } from './json/json.ts';
import type { Part } from './part.ts';
import { requestPart } from './request/request.ts';
import { requestReaderPart } from './request-reader/request-reader.ts';

/** A part that can be run. */
export interface Runner {
  readonly name: string;
  /** The share of this part in every hundred cases. */
  readonly share: number;
  run(this: void, cases: number, seed: number): Promise<PartReport>;
}

function runner<Case>(part: Part<Case>): Runner {
  return { name: part.name, share: part.share, run: (cases, seed) => runPart(part, cases, seed) };
}

/** All parts, in the order in which they run. */
export const runners: readonly Runner[] = [
  runner(jsonPart),
  runner(envelopePart),
  runner(requestReaderPart),
  runner(requestPart),
  runner(responsePart),
];
