import { useId, useRef } from 'preact/hooks';
import { texts } from '../texts.ts';

/** A menu item: its text, its action, and whether the action is destructive. */
export type MenuItem = readonly [text: string, onSelect: () => void, danger?: 'danger'];

/** A menu item that copies an id. If copying fails, the id can still be selected and copied by hand. */
export function copyItem(id: string): MenuItem {
  return [texts.keys.copyId, () => void navigator.clipboard.writeText(id).catch(() => {})];
}

/** A button that opens a list of actions; nothing if there are no actions. */
export function Menu({ of, items }: { of: string; items: readonly MenuItem[] }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLUListElement>(null);
  if (items.length === 0) return null;
  const close = (): void => list.current?.hidePopover();
  // The list is shown in the top layer, because a table would cut it off.
  const place = (): void => {
    if (button.current === null || list.current === null) return;
    const { top, bottom, right } = button.current.getBoundingClientRect();
    const isLow = bottom > window.innerHeight / 2;
    list.current.style.top = isLow ? 'auto' : `${bottom + 4}px`;
    list.current.style.bottom = isLow ? `${window.innerHeight - top + 4}px` : 'auto';
    list.current.style.right = `${document.documentElement.clientWidth - right}px`;
    // Scrolling or resizing closes the list, because the list does not move with its button.
    for (const event of ['scroll', 'resize']) window.addEventListener(event, close, { once: true, capture: true });
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class="menu"
        aria-label={texts.keys.actionsOf(of)}
        popovertarget={id}
        onClick={place}
      >
        <span aria-hidden="true">⋯</span>
      </button>
      <ul ref={list} id={id} popover="auto" class="menu">
        {items.map(([text, onSelect, danger]) => (
          <li key={text}>
            <button
              type="button"
              class={danger}
              onClick={() => {
                close();
                // A dialog returns the focus to the element that had it before, so the button gets the focus first.
                button.current?.focus();
                onSelect();
              }}
            >
              {text}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
