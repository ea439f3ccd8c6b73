/** A sample of an instant vector. */
interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

interface Rule {
  readonly name: string;
  readonly health: 'ok' | 'err' | 'unknown';
  readonly lastError?: string;
}

/** A client of a running Prometheus. */
export interface PrometheusServer {
  /**
   * Runs an instant query.
   *
   * @throws with the message of Prometheus if the query is invalid
   */
  query(expr: string): Promise<readonly Sample[]>;
  /** The values of a label on the matching series. */
  labelValues(series: string, label: string): Promise<readonly string[]>;
  rules(): Promise<readonly Rule[]>;
}

/** @param address such as `127.0.0.1:9095` */
export function prometheusAt(address: string): PrometheusServer {
  const get = async (path: string): Promise<unknown> => {
    const response = await fetch(`http://${address}/api/v1/${path}`);
    const { status, data, error } = (await response.json()) as { status: string; data: unknown; error?: string };
    if (status !== 'success') throw new Error(error);
    return data;
  };
  return {
    query: async (expr) =>
      ((await get(`query?query=${encodeURIComponent(expr)}`)) as { readonly result: readonly Sample[] }).result,
    labelValues: async (series, label) =>
      (await get(`label/${label}/values?match[]=${encodeURIComponent(series)}`)) as readonly string[],
    rules: async () =>
      ((await get('rules')) as { readonly groups: readonly { readonly rules: readonly Rule[] }[] }).groups.flatMap(
        (group) => group.rules,
      ),
  };
}
