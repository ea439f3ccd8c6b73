import { Gauge, type Registry } from 'prom-client';

/** Limits of the configuration, and how much of each is used. */
export interface LimitUse {
  readonly limits: { readonly connections: number; readonly inFlight: number; readonly buffered: number };
  readonly used: LimitUse['limits'];
}

/** The limits and their use. @param use called at each scrape, by either metric */
export function limitMetrics(registry: Registry, use: () => LimitUse): void {
  const gauge = (name: string, help: string, which: keyof LimitUse): void => {
    void new Gauge({
      name,
      help,
      labelNames: ['limit'],
      registers: [registry],
      collect() {
        const { connections, inFlight, buffered } = use()[which];
        this.set({ limit: 'connections' }, connections);
        this.set({ limit: 'in_flight' }, inFlight);
        this.set({ limit: 'buffered' }, buffered);
      },
    });
  };
  gauge(
    'envelope_sidecar_limit',
    'Limits of the configuration: open connections, requests in flight, bytes of bodies held at once.',
    'limits',
  );
  gauge('envelope_sidecar_limit_used', 'How much of each limit is used.', 'used');
}
