import { fileURLToPath } from 'node:url';
import { runCommandLine } from '../load/command-line.ts';
import { runResources } from './resources.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

await runCommandLine('seconds', 300, (seconds, defer) => runResources(seconds, defer, { program }));
