import { Gauge, type Registry } from 'prom-client';

/**
 * @param certificates called at each scrape: the certificates in use by member of the configuration; times in epoch
 *   milliseconds
 */
export function certificateMetrics(
  registry: Registry,
  certificates: () => readonly { readonly certificate: string; readonly expiresAt: number }[],
): void {
  void new Gauge({
    name: 'envelope_sidecar_certificate_expiry_timestamp_seconds',
    help: 'When certificates of the configuration expire.',
    labelNames: ['certificate'],
    registers: [registry],
    collect() {
      // Drops those that were removed from the configuration.
      this.reset();
      for (const { certificate, expiresAt } of certificates()) this.set({ certificate }, expiresAt / 1_000);
    },
  });
}
