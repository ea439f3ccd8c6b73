import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/** Gauges of prom-client whose names end in `_total`, which is reserved for counters. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** Metrics of Node itself and of the build. @param version of the sidecar */
export function processMetrics(registry: Registry, version: string): void {
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const build = new Gauge({
    name: 'envelope_sidecar_build_info',
    help: 'Always 1; the labels are the versions of the sidecar and of Node.',
    labelNames: ['version', 'node'],
    registers: [registry],
  });
  build.set({ version, node: process.version }, 1);
}
