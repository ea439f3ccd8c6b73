import { runCommandLine } from '../load/command-line.ts';
import { runSoak } from './soak.ts';

await runCommandLine('minutes', 10, runSoak);
