import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';

/** Links to pages, or to the tabs of a page. */
export function Nav(props: {
  label: string;
  class?: 'tabs';
  /** The last segments of the addresses. */
  names: readonly (keyof typeof texts.pages)[];
  current: string;
  /** The segments that all addresses begin with. */
  within?: readonly string[];
}) {
  const { label, names, current, within = [] } = props;
  return (
    <nav class={props.class} aria-label={label}>
      <ul>
        {names.map((name) => (
          <li key={name}>
            <a href={linkTo(...within, name)} aria-current={name === current ? 'page' : undefined}>
              {texts.pages[name]}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
