import { useSignal, type ReadonlySignal } from '@preact/signals';
import { useCallback, useEffect, useRef } from 'preact/hooks';
import { Refused } from './api.ts';
import { session } from './session.ts';

/** What a page shows of the API. */
export interface Loaded<Data> {
  /** Undefined until the first response. It stays while a later one is waited for, or is a refusal. */
  readonly data: ReadonlySignal<Data | undefined>;
  readonly refused: ReadonlySignal<Refused | undefined>;
  /** Asks again. */
  readonly reload: () => Promise<void>;
  /** Shows what a change has returned, until the next response. */
  readonly show: (data: Data) => void;
}

/**
 * Asks the API, again whenever `key` changes and every so often while the page can be seen.
 *
 * @param key what `asked` depends on
 * @param every milliseconds; undefined: once
 */
export function useLoad<Data>(asked: () => Promise<Data>, key: string, every?: number): Loaded<Data> {
  const data = useSignal<Data | undefined>(undefined);
  const refused = useSignal<Refused | undefined>(undefined);
  const current = useRef({ key, asked, turn: 0 });
  if (current.current.key !== key) {
    current.current.key = key;
    current.current.turn += 1;
    data.value = undefined;
    refused.value = undefined;
  }
  current.current.asked = asked;

  const reload = useCallback(async () => {
    const turn = (current.current.turn += 1);
    const isCurrent = (): boolean => current.current.turn === turn;
    try {
      const loaded = await current.current.asked();
      if (!isCurrent()) return;
      data.value = loaded;
      refused.value = undefined;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (isCurrent()) refused.value = error;
    }
  }, [data, refused]);

  const show = useCallback(
    (shown: Data) => {
      // A response that is still under way tells of the time before.
      current.current.turn += 1;
      data.value = shown;
    },
    [data],
  );

  useEffect(() => {
    void reload();
    if (every === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden && session.value !== null) void reload();
    }, every);
    const seen = (): void => {
      if (!document.hidden) void reload();
    };
    document.addEventListener('visibilitychange', seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key, every, reload]);

  return { data, refused, reload, show };
}
