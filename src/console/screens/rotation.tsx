import { useSignal, type Signal } from '@preact/signals';
import { api, ask, type ApiKey, type EnvironmentName } from '../api.ts';
import { inAddress, linkTo } from '../route.ts';
import { mayChange } from '../session.ts';
import { set } from '../set.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Chips } from '../ui/chips.tsx';
import { Pages } from '../ui/pages.tsx';
import { Section } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { When } from '../ui/when.tsx';
import { acceptedBy, GraceUse } from './grace.tsx';
import { RotateSeveral } from './rotate-several.tsx';

const say = texts.rotation;

/** Keys that are due for rotation, and running graces. */
export function Rotation() {
  return (
    <>
      <h1>{texts.pages.rotation}</h1>
      <DueKeys />
      <Graces every={5_000} />
    </>
  );
}

/** The due keys as a work list: those that are selected are rotated one after the other. */
function DueKeys() {
  const selected = useSignal<readonly ApiKey[]>([]);
  const rotating = useSignal(false);
  const rotations = useSignal(0);
  const environment = inAddress<EnvironmentName>('environment');
  const closed = (rotated: boolean): void => {
    rotating.value = false;
    if (!rotated) return;
    selected.value = [];
    rotations.value += 1;
  };
  return (
    <Section title={say.keys} intro={say.keysIntro}>
      <div class="row between">
        <Chips
          label={texts.columns.environment}
          of={environment}
          options={(['live', 'test'] as const).map((each) => [each, texts.environments[each]])}
        />
        {mayChange() && (
          <button class="primary" disabled={selected.value.length === 0} onClick={set(rotating, true)}>
            {say.rotateSelected(selected.value.length)}
          </button>
        )}
      </div>
      <Pages
        key={rotations.value}
        ask={(after) => ask(api.GET('/api/v1/keys/due', { params: { query: { limit: 50, ...after } } }))}
        every={30_000}
      >
        {({ keys }) => (
          <Table
            label={say.keys}
            rows={keys
              .filter((key) => environment.value === '' || key.environment === environment.value)
              .toSorted((a, b) => endOf(a) - endOf(b))}
            keyOf={({ account, id }) => `${account} ${id}`}
            columns={[
              [texts.columns.account, ({ account }) => <a href={linkTo('accounts', account, 'keys')}>{account}</a>],
              [texts.keys.id, (key) => <Selectable apiKey={key} selected={selected} />],
              [texts.columns.environment, ({ environment }) => texts.environments[environment]],
              [texts.keys.kind, ({ kind }) => texts.kinds[kind]],
              [say.why, (key) => <Warnings apiKey={key} />],
              [texts.keys.age, ({ created_at: at }) => <When date={at} />],
              [texts.keys.expires, ({ expires_at: at }) => <When date={at} />],
            ]}
            empty={say.noKeys}
          />
        )}
      </Pages>
      {rotating.value && <RotateSeveral keys={selected.value} onClose={closed} />}
    </Section>
  );
}

/** The more urgent a key is, the smaller: when it expires, behind those that expire when it was made. */
function endOf({ expires_at: expires, created_at: created }: ApiKey): number {
  return expires === null ? Number.MAX_SAFE_INTEGER / 2 + Date.parse(created) : Date.parse(expires);
}

function Selectable({ apiKey, selected }: { apiKey: ApiKey; selected: Signal<readonly ApiKey[]> }) {
  if (!mayChange()) return <code>{apiKey.id}</code>;
  const isSelected = selected.value.some(({ id }) => id === apiKey.id);
  return (
    <label class="row tight">
      <input
        type="checkbox"
        checked={isSelected}
        onChange={() => {
          const others = selected.value.filter(({ id }) => id !== apiKey.id);
          selected.value = isSelected ? others : [...others, apiKey];
        }}
      />
      <code>{apiKey.id}</code>
    </label>
  );
}

/** The reasons to rotate a key. */
export function Warnings({ apiKey }: { apiKey: ApiKey }) {
  return (
    <span class="row tight">
      {apiKey.warnings.map((warning) => (
        <Badge key={warning} tone="warn" title={texts.keys.warningHints[warning]}>
          {texts.keys.warnings[warning]}
        </Badge>
      ))}
    </span>
  );
}

/**
 * The running graces, and whether they are still used.
 *
 * @param props.every how often it is asked for, in milliseconds
 */
export function Graces({ every }: { every: number }) {
  return (
    <Section title={say.graces} intro={say.gracesIntro}>
      <Pages
        ask={(after) => ask(api.GET('/api/v1/graces', { params: { query: { limit: 50, ...after } } }))}
        every={every}
      >
        {({ graces }) => (
          <Table
            label={say.graces}
            rows={graces}
            keyOf={({ account, environment }) => `${account} ${environment}`}
            columns={[
              [
                texts.columns.account,
                ({ account }) => <a href={linkTo('accounts', account, 'encryption')}>{account}</a>,
              ],
              [texts.columns.environment, ({ environment }) => texts.environments[environment]],
              [say.accepts, (encryption) => texts.encryption.accepts[acceptedBy(encryption)]],
              [say.ends, ({ previous }) => <When date={previous?.until} />],
              [say.use, ({ previous }) => <GraceUse lastUsed={previous?.last_used_at} />],
            ]}
            empty={say.noGraces}
          />
        )}
      </Pages>
    </Section>
  );
}
