import { useSignal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { catchRefusal, type Refused } from './api.ts';
import { session } from './session.ts';

/** Data from the API that a page shows. */
export interface Loaded<Data> {
  /** Undefined until the first response. Kept during later requests and after a refusal. */
  readonly data: ReadonlySignal<Data | undefined>;
  readonly refused: ReadonlySignal<Refused | undefined>;
  /** Loads the data again. */
  readonly reload: () => void;
}

/**
 * Loads data from the API. With `every`, loads it again periodically while the page is visible.
 *
 * @param ask must always ask for the same data. A component that needs different data must get a new `key`
 * @param every the interval in milliseconds; undefined to load the data only once
 */
export function useLoad<Data>(ask: () => Promise<Data>, every?: number): Loaded<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const refused = useSignal<Refused | undefined>(undefined);
  const pending = useRef<Promise<Data>>(undefined);

  const load = async (): Promise<void> => {
    const asked = ask();
    pending.current = asked;
    const refusal = await catchRefusal(async () => {
      const loaded = await asked;
      if (pending.current === asked) data.value = loaded;
    });
    // A later request has replaced this one.
    if (pending.current !== asked) return;
    pending.current = undefined;
    refused.value = refusal;
  };
  const reload = (): void => void load();

  useEffect(() => {
    reload();
    if (every === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden && session.value !== null && pending.current === undefined) reload();
    }, every);
    const seen = (): void => {
      if (!document.hidden) reload();
    };
    document.addEventListener('visibilitychange', seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [every]);

  return { data, refused, reload };
}

/** Returns why the last attempt was refused, and a function that makes an attempt. */
export function useAttempt() {
  const refused = useSignal<Refused | undefined>(undefined);
  const attempt = (make: () => Promise<void>): void => {
    void catchRefusal(make).then((refusal) => (refused.value = refusal));
  };
  return [refused, attempt] as const;
}
