import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { catchRefusal, type Refused } from '../api.ts';
import { announceChange } from '../notices.ts';
import { texts } from '../texts.ts';
import { Form } from './fields.tsx';
import { Problem } from './states.tsx';

/**
 * A modal dialog, which is open as long as it is rendered.
 *
 * @param props.onClose undefined if only the dialog's own buttons may close it, because its content is shown only once
 */
export function Dialog(props: { title: string; onClose?: (() => void) | undefined; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const title = useId();
  // The dialog takes the focus at once, so that the next key press goes to the dialog, not to the page behind it.
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      // A dialog that is removed from the page does not return the focus to where it was.
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const { onClose } = props;
  return (
    <dialog
      ref={element}
      aria-labelledby={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onKeyDown={(event) => {
        // At the second Escape, a browser closes the dialog even though `onCancel` calls `preventDefault`.
        if (event.key === 'Escape' && onClose === undefined) event.preventDefault();
      }}
    >
      <h2 id={title}>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** The props of a dialog that makes a change. */
export interface DialogHandlers<Changed> {
  readonly onClose: () => void;
  /** Called after the change, once the dialog is closed. */
  readonly onDone: (changed: Changed) => void;
}

/** A dialog that makes a change and then closes. If the change is refused, the dialog stays open and shows the reason. */
export function Ask<Changed extends { readonly in_force: boolean }>(
  props: DialogHandlers<Changed> & {
    title: string;
    submit: string;
    danger?: boolean;
    /** Whether the input is complete. Default: true. */
    ready?: boolean;
    onSubmit: () => Promise<Changed>;
    /** The message that is shown after the change. */
    notice: string;
    children: ComponentChildren;
  },
) {
  const busy = useSignal(false);
  const refused = useSignal<Refused | undefined>(undefined);
  const fields = useMemo(() => new Set<string>(), []);
  const submit = async (): Promise<void> => {
    if (busy.value || props.ready === false) return;
    busy.value = true;
    refused.value = undefined;
    try {
      refused.value = await catchRefusal(async () => {
        const changed = await props.onSubmit();
        props.onClose();
        props.onDone(changed);
        announceChange(props.notice, changed);
      });
    } finally {
      busy.value = false;
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form
        autocomplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Form.Provider value={{ errors: refused.value?.errors ?? {}, fields }}>{props.children}</Form.Provider>
        <Problem refused={refused.value?.without(fields)} />
        <div class="row end">
          <button type="button" onClick={props.onClose}>
            {texts.cancel}
          </button>
          <button class={props.danger === true ? 'danger' : 'primary'} disabled={busy.value || props.ready === false}>
            {props.submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
