import { computed, signal } from '@preact/signals';

const signInLink = /^#\/sign-in\/(.+)$/;

/** The fragment of the address, which selects the page. It may name accounts but never contains a secret. */
const hash = signal(location.hash);
addEventListener('hashchange', () => {
  // A sign-in link was opened in this window. Reload the page, because it takes a token from a link only when it starts.
  if (signInLink.test(location.hash)) location.reload();
  hash.value = location.hash;
});

const parts = computed(() => hash.value.replace(/^#\/?/, '').split('?'));

/** Takes the token from a sign-in link, such as the demo's. The token is removed from the address and from the history at once. */
export function takeToken(): string | undefined {
  const [, token] = signInLink.exec(location.hash) ?? [];
  if (token === undefined) return undefined;
  history.replaceState(null, '', location.pathname);
  hash.value = '';
  return token;
}

/** The decoded segments of the page's path: `accounts`, `acme` and `keys` for `#/accounts/acme/keys`. */
export const path = computed<readonly string[]>(() => (parts.value[0] ?? '').split('/').filter(Boolean).map(decode));

const query = computed(() => new URLSearchParams(parts.value[1]));

/** The path of the page without its tab, such as `accounts/acme`. */
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

/** Opens a page at once, so that the next message is shown on that page. */
export function goTo(...segments: readonly string[]): void {
  openAddress(linkTo(...segments));
}

/** Like `goTo`, but takes an address. */
export function openAddress(address: string): void {
  location.hash = address;
  hash.value = location.hash;
}

/** Something that can be read and set, such as a signal. */
export interface Cell<Value> {
  value: Value;
}

/** The name of the parameter for the position in a list. The position is reset when another parameter changes. */
const position = 'page';

/**
 * A parameter in the page's address. Its default value is `preset`. The value survives a reload and is part of a copied address. The
 * browser's Back button leads to the previous page or, in a list, to the earlier position.
 */
export function inAddress<Value extends string = string>(name: string, preset: Value | '' = ''): Cell<Value | ''> {
  return {
    get value() {
      return (query.value.get(name) ?? preset) as Value | '';
    },
    set value(text) {
      const changed = new URLSearchParams(query.value);
      changed.delete(position);
      changed.delete(name);
      if (text !== preset) changed.set(name, text);
      const address = `#/${parts.value[0] ?? ''}${changed.size === 0 ? '' : `?${changed.toString()}`}`;
      if (name === position) {
        openAddress(address);
        return;
      }
      history.replaceState(null, '', address);
      hash.value = location.hash;
    },
  };
}

/** The address of a page with a parameter. */
export function linkWith(name: string, value: string, ...segments: readonly string[]): string {
  return `${linkTo(...segments)}?${new URLSearchParams({ [name]: value }).toString()}`;
}

/** An event handler that sets a cell to a value. */
export function set<Value>(cell: Cell<Value>, value: Value): () => void {
  return () => {
    cell.value = value;
  };
}

/** An event handler that sets a cell to the text of its control. */
export function setText(cell: Cell<string>): (event: { readonly currentTarget: { value: string } }) => void {
  return ({ currentTarget }) => {
    cell.value = currentTarget.value;
  };
}
