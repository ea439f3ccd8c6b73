import { linkTo } from '../route.ts';

/** The id of an account, which leads to it. A table shows as much as fits, and all of it in the title. */
export function AccountLink({ id, tab }: { id: string; tab?: 'keys' | 'encryption' | 'activity' }) {
  return (
    <a class="id" href={linkTo('accounts', id, ...(tab === undefined ? [] : [tab]))} title={id}>
      {id}
    </a>
  );
}

/** Another id, such as that of a key. */
export function Id({ id }: { id: string }) {
  return (
    <code class="id" title={id}>
      {id}
    </code>
  );
}
