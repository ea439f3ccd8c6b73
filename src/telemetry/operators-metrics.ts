import { Counter, type Registry } from 'prom-client';

/** Counts requests of the operators' API. The operation is an operation of the API, or `none`. */
export type CountOperation = (operation: string, status: number) => void;

export function operatorsMetrics(registry: Registry): CountOperation {
  const requests = new Counter({
    name: 'envelope_sidecar_operators_requests_total',
    help: "Requests of the operators' API, by operation and status.",
    labelNames: ['operation', 'status'],
    registers: [registry],
  });
  return (operation, status) => requests.inc({ operation, status });
}
