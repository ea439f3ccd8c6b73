import { runCommandLine } from '../load/command-line.ts';
import { runRestarts } from './restarts.ts';

await runCommandLine('loops', 100, runRestarts);
