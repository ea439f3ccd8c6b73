import { createContext, type ComponentChildren } from 'preact';
import { useContext, useId } from 'preact/hooks';
import { setText, type Cell } from '../route.ts';

/** The state of a form, keyed by the names of the request's members. */
interface FormState {
  /** What is wrong with each member. */
  readonly errors: Readonly<Record<string, string>>;
  /** The members that have a field. A field shows what is wrong with its member. */
  readonly fields: Set<string>;
}

export const Form = createContext<FormState | undefined>(undefined);

interface Control {
  readonly id: string;
  readonly 'aria-describedby': string | undefined;
  readonly 'aria-invalid': boolean;
}

/** A labelled control, with a line of explanation below it and a message if its value is wrong. */
export function Field(props: {
  label: string;
  hint?: string | undefined;
  /** The member of the request that the field sets. */
  name?: string | undefined;
  /** Receives the attributes that connect the control with its label and its hint. */
  children: (control: Control) => ComponentChildren;
}) {
  const id = useId();
  const hintId = `${id}-hint`;
  const errorId = `${id}-error`;
  const form = useContext(Form);
  if (props.name !== undefined) form?.fields.add(props.name);
  const error = props.name === undefined ? undefined : form?.errors[props.name];
  const described = [...(error === undefined ? [] : [errorId]), ...(props.hint === undefined ? [] : [hintId])].join(
    ' ',
  );
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children({
        id,
        'aria-describedby': described === '' ? undefined : described,
        'aria-invalid': error !== undefined,
      })}
      {error !== undefined && (
        <p class="wrong" id={errorId} role="alert">
          {error}
        </p>
      )}
      {props.hint !== undefined && (
        <p class="hint" id={hintId}>
          {props.hint}
        </p>
      )}
    </div>
  );
}

/** The attributes of a search field. */
export const searchInput = { type: 'search', autocomplete: 'off', spellcheck: false } as const;

/** A field for one line of text. */
export function TextField({ label, hint, name, of, code = false }: TextProps & { code?: boolean }) {
  return (
    <Field label={label} hint={hint} name={name}>
      {(control) => (
        <input
          {...control}
          class={code ? 'code' : undefined}
          value={of.value}
          autocomplete="off"
          spellcheck={false}
          onInput={setText(of)}
        />
      )}
    </Field>
  );
}

export interface TextProps {
  readonly label: string;
  readonly hint?: string;
  /** The member of the request that the field sets. */
  readonly name?: string;
  /** The typed text. */
  readonly of: Cell<string>;
}

/** A field for choosing one option. `options` contains the text of each value. */
export function Choice<Value extends string>(props: {
  label: string;
  hint?: string | undefined;
  /** The chosen value. */
  of: Cell<Value>;
  options: Readonly<Record<Value, string>>;
}) {
  const { of } = props;
  return (
    <Field label={props.label} hint={props.hint}>
      {(control) => (
        <select
          {...control}
          value={of.value}
          onChange={(event) => {
            of.value = event.currentTarget.value as Value;
          }}
        >
          {Object.entries<string>(props.options).map(([value, text]) => (
            <option key={value} value={value} selected={value === of.value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
