import { useSignal, type ReadonlySignal } from '@preact/signals';
import { useCallback, useEffect, useRef } from 'preact/hooks';
import { Refused } from './api.ts';
import { session } from './session.ts';

/** Data of the API that a page shows. */
export interface Loaded<Data> {
  /** Undefined until the first response. Kept during later requests and after a refusal. */
  readonly data: ReadonlySignal<Data | undefined>;
  readonly refused: ReadonlySignal<Refused | undefined>;
  /** Loads again. */
  readonly reload: () => Promise<void>;
  /** Shows the result of a change until the next response. */
  readonly show: (data: Data) => void;
}

/**
 * Loads from the API, again whenever `key` changes, and periodically while the page is visible.
 *
 * @param key the dependency of `asked`
 * @param every milliseconds; undefined: once
 */
export function useLoad<Data>(asked: () => Promise<Data>, key: string, every?: number): Loaded<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const refused = useSignal<Refused | undefined>(undefined);
  const current = useRef({ key, asked, begun: 0, shown: 0, busy: 0 });
  const state = current.current;
  if (state.key !== key) {
    state.key = key;
    state.shown = state.begun;
    data.value = undefined;
    refused.value = undefined;
  }
  state.asked = asked;

  const reload = useCallback(async () => {
    const turn = (state.begun += 1);
    // A later response or a change has already replaced this one.
    const isLate = (): boolean => turn <= state.shown;
    state.busy += 1;
    try {
      const loaded = await state.asked();
      if (isLate()) return;
      state.shown = turn;
      data.value = loaded;
      refused.value = undefined;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!isLate()) refused.value = error;
    } finally {
      state.busy -= 1;
    }
  }, [data, refused, state]);

  const show = useCallback(
    (shown: Data) => {
      state.shown = state.begun;
      data.value = shown;
    },
    [data, state],
  );

  useEffect(() => {
    void reload();
    if (every === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden && session.value !== null && state.busy === 0) void reload();
    }, every);
    const seen = (): void => {
      if (!document.hidden) void reload();
    };
    document.addEventListener('visibilitychange', seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key, every, reload, state]);

  return { data, refused, reload, show };
}
