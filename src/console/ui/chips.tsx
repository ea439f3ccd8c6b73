import type { EnvironmentName } from '../api.ts';
import { set, type Cell } from '../route.ts';
import { texts } from '../texts.ts';

const environments = ['live', 'test'] as const;

/** Buttons for choosing one of several options, each with its count. Pressing the chosen option again clears the choice. */
export function Chips<Value extends string>(props: {
  label: string;
  /** The chosen option; empty if none is chosen. */
  of: Cell<Value | ''>;
  /** The option that counts as chosen while `of` is empty. */
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

/** Buttons for choosing one environment, or both if none is pressed. */
export function EnvironmentChips({ of }: { of: Cell<EnvironmentName | ''> }) {
  const options = environments.map((each) => [each, texts.environments[each]] as const);
  return <Chips label={texts.columns.environment} of={of} options={options} />;
}
