import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

/** What `Field` gives to the control that it labels. */
export interface Labelled {
  readonly id: string;
  readonly 'aria-describedby': string | undefined;
}

/** A labelled control, with a line of explanation below it. */
export function Field(props: {
  label: string;
  hint?: string | undefined;
  children: (control: Labelled) => ComponentChildren;
}) {
  const id = useId();
  const hintId = `${id}-hint`;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children({ id, 'aria-describedby': props.hint === undefined ? undefined : hintId })}
      {props.hint !== undefined && (
        <p class="hint" id={hintId}>
          {props.hint}
        </p>
      )}
    </div>
  );
}

/** A choice of few; the options' texts by their values. */
export function Choice<Value extends string>(props: {
  label: string;
  hint?: string | undefined;
  value: Value;
  options: Readonly<Record<Value, string>>;
  onChange: (value: Value) => void;
}) {
  return (
    <Field label={props.label} hint={props.hint}>
      {(control) => (
        <select
          {...control}
          value={props.value}
          onChange={(event) => props.onChange(event.currentTarget.value as Value)}
        >
          {Object.entries<string>(props.options).map(([value, text]) => (
            <option key={value} value={value} selected={value === props.value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
