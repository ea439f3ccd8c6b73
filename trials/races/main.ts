import { runCommandLine } from '../load/command-line.ts';
import { runRaces } from './races.ts';

await runCommandLine('races', 10_000, runRaces);
