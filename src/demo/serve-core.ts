import { createPaymentCore } from './payment-core.ts';

// Runs the stand-in payment core on loopback. The core's container in the example deployment runs this program.
const core = createPaymentCore((line) => void process.stdout.write(`${line}\n`));
core.listen(3000, '127.0.0.1');
process.on('SIGTERM', () => core.close());
