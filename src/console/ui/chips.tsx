import type { EnvironmentName } from '../api.ts';
import { set, type Cell } from '../route.ts';
import { texts } from '../texts.ts';

const environments = ['live', 'test'] as const;

/** One of several options, each as a button with its count. An option that is pressed again is no longer chosen. */
export function Chips<Value extends string>(props: {
  label: string;
  /** The chosen option; empty: none. */
  of: Cell<Value | ''>;
  /** The chosen option while `of` is empty. */
  preset?: Value;
  options: readonly (readonly [value: Value, text: string, count?: number])[];
}) {
  const chosen = props.of.value === '' ? props.preset : props.of.value;
  return (
    <div class="row tight" role="group" aria-label={props.label}>
      {props.options.map(([value, text, count]) => {
        const other = value === props.of.value || value === props.preset ? '' : value;
        return (
          <button
            key={value}
            type="button"
            class="chip"
            aria-pressed={value === chosen}
            onClick={set<Value | ''>(props.of, other)}
          >
            {text} {count?.toLocaleString('en')}
          </button>
        );
      })}
    </div>
  );
}

/** One environment, or both. */
export function EnvironmentChips({ of }: { of: Cell<EnvironmentName | ''> }) {
  const options = environments.map((each) => [each, texts.environments[each]] as const);
  return <Chips label={texts.columns.environment} of={of} options={options} />;
}
