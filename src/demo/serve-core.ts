import { createPaymentCore } from './payment-core.ts';

// The stand-in payment core as a program, on loopback: the core's container in the example deployment.
const core = createPaymentCore((line) => void process.stdout.write(`${line}\n`));
core.listen(3000, '127.0.0.1');
process.on('SIGTERM', () => core.close());
