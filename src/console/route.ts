import { computed, signal } from '@preact/signals';

/** The fragment of the address, which selects the page. It names accounts, never anything secret. */
const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
});

/** The segments of the page's path, decoded: `#/accounts/acme/keys` is `accounts`, `acme`, `keys`. */
export const path = computed<readonly string[]>(() => {
  const [place = ''] = hash.value.replace(/^#\/?/, '').split('?');
  return place.split('/').filter(Boolean).map(decode);
});

/** The page without its tab: `accounts/acme`. */
export const place = computed(() => path.value.slice(0, 2).join('/'));

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The address of a page. */
export function linkTo(...segments: readonly string[]): string {
  return `#/${segments.map(encodeURIComponent).join('/')}`;
}

/** Opens a page at once, so that the next message belongs to it. */
export function goTo(...segments: readonly string[]): void {
  location.hash = linkTo(...segments);
  hash.value = location.hash;
}
