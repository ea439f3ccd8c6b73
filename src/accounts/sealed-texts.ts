import { environmentNames } from './api-key.ts';
import type { StoredAccount } from './store.ts';
import { isWrapped, type Place } from './vault.ts';

/** The strings of a stored account that were sealed with a master key, each with its place. */
export function* sealedTexts({ id: account, encryption }: StoredAccount): Generator<{ text: string; place: Place }> {
  for (const environment of environmentNames) {
    const one = encryption[environment];
    for (const credentials of [one?.credentials, one?.previous?.credentials]) {
      for (const member of ['key', 'iv'] as const) {
        const text = credentials?.[member];
        if (text !== undefined && isWrapped(text)) yield { text, place: { account, environment, member } };
      }
    }
  }
}
