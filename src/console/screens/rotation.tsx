import { useSignal, type Signal } from '@preact/signals';
import { api, ask, given, type Due, type EnvironmentName } from '../api.ts';
import { inAddress, set } from '../route.ts';
import { mayChange } from '../session.ts';
import { texts } from '../texts.ts';
import { AccountLink, Badge, When } from '../ui/inline.tsx';
import { Chips, EnvironmentChips } from '../ui/chips.tsx';
import { Choice } from '../ui/fields.tsx';
import { Pages } from '../ui/pages.tsx';
import { Section } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { acceptedBy, GraceUse } from './grace.tsx';
import { RotateSeveral, type DueKey } from './rotate-several.tsx';

const say = texts.rotation;

const kinds = ['secret', 'public', 'credentials'] as const;

/** The ways to sort a page, apart from the API's own order, which is by urgency. `unused` puts items that were never used first. */
const orders = {
  unused: (a: Due, b: Due) => (a.last_used_at ?? '').localeCompare(b.last_used_at ?? ''),
  oldest: (a: Due, b: Due) => (a.created_at ?? '').localeCompare(b.created_at ?? ''),
};

/** Keys and credentials that are due for rotation, and running grace periods. */
export function Rotation() {
  return (
    <>
      <h1>{texts.pages.rotation}</h1>
      <Dues />
      <Graces every={5_000} />
    </>
  );
}

/** A work list of the keys and credentials that are due. Selected keys are rotated one after another. */
function Dues() {
  const selected = useSignal<readonly DueKey[]>([]);
  const rotating = useSignal(false);
  const rotations = useSignal(0);
  const environment = inAddress<EnvironmentName>('environment');
  const kind = inAddress<Due['kind']>('kind');
  const order = inAddress<keyof typeof orders>('order');
  const query = {
    limit: 50,
    ...given({ environment: environment.value, kind: kind.value }),
  };
  const closed = (rotated: boolean): void => {
    rotating.value = false;
    if (!rotated) return;
    selected.value = [];
    rotations.value += 1;
  };
  return (
    <Section title={say.due} intro={say.dueIntro}>
      <div class="row between">
        <div class="row">
          <EnvironmentChips of={environment} />
          <Chips label={texts.keys.kind} of={kind} options={kinds.map((each) => [each, say.kinds[each]])} />
        </div>
        <Choice label={say.order} of={order} options={say.orders} />
        {mayChange() && (
          <button class="primary" disabled={selected.value.length === 0} onClick={set(rotating, true)}>
            {say.rotateSelected(selected.value.length)}
          </button>
        )}
      </div>
      <Pages
        key={`${rotations.value} ${environment.value} ${kind.value}`}
        at={inAddress('page')}
        ask={(after) => ask(api.GET('/api/v1/due', { params: { query: { ...query, ...after } } }))}
        every={30_000}
      >
        {({ due }) => (
          <Table
            label={say.due}
            rows={order.value === '' ? due : due.toSorted(orders[order.value])}
            keyOf={({ account, id, environment }) => `${account} ${id ?? environment}`}
            columns={[
              [
                texts.columns.account,
                ({ account, id }) => <AccountLink id={account} tab={id === null ? 'encryption' : 'keys'} />,
              ],
              [say.what, (each) => <What due={each} selected={selected} />, 'name'],
              [texts.columns.environment, ({ environment }) => texts.environments[environment]],
              [say.why, (each) => <Warnings of={each} />],
              [texts.keys.age, ({ created_at: at }) => <When date={at} />],
              [texts.keys.expires, ({ expires_at: at }) => <When date={at} />],
              [texts.keys.lastUsed, ({ last_used_at: at }) => <When date={at} />],
            ]}
            empty={say.nothingDue}
          />
        )}
      </Pages>
      {rotating.value && <RotateSeveral keys={selected.value} onClose={closed} />}
    </Section>
  );
}

/** A key or credentials. Only keys can be selected, because credentials are replaced on their account's page. */
function What({ due: { account, id, kind, name, hint }, selected }: { due: Due; selected: Signal<readonly DueKey[]> }) {
  if (id === null) return <>{say.kinds[kind]}</>;
  const key = (
    <span>
      {name} <code>{hint ?? id}</code> <span class="hint">{texts.kinds[kind === 'public' ? kind : 'secret']}</span>
    </span>
  );
  if (!mayChange()) return key;
  const isSelected = selected.value.some((each) => each.id === id);
  return (
    <label class="pick">
      <input
        type="checkbox"
        aria-label={id}
        checked={isSelected}
        onChange={() => {
          const others = selected.value.filter((each) => each.id !== id);
          selected.value = isSelected ? others : [...others, { account, id }];
        }}
      />
      {key}
    </label>
  );
}

/** The reasons to replace a key or credentials. */
export function Warnings({ of }: { of: Pick<Due, 'warnings'> }) {
  return (
    <span class="row tight">
      {of.warnings.map((warning) => (
        <Badge key={warning} tone="warn" title={texts.keys.warningHints[warning]}>
          {texts.keys.warnings[warning]}
        </Badge>
      ))}
    </span>
  );
}

/**
 * The running grace periods, and whether they are still used.
 *
 * @param props.every how often the list is loaded, in milliseconds
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
              [texts.columns.account, ({ account }) => <AccountLink id={account} tab="encryption" />],
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
