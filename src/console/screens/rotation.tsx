import { api, ask, type ApiKey } from '../api.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Pages } from '../ui/pages.tsx';
import { Section } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { When } from '../ui/when.tsx';
import { acceptedBy, GraceUse } from './grace.tsx';

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

function DueKeys() {
  return (
    <Section title={say.keys} intro={say.keysIntro}>
      <Pages
        ask={(after) => ask(api.GET('/api/v1/keys/due', { params: { query: { limit: 50, ...after } } }))}
        every={30_000}
      >
        {({ keys }) => (
          <Table
            label={say.keys}
            rows={keys}
            keyOf={({ account, id }) => `${account} ${id}`}
            columns={[
              [texts.columns.account, ({ account }) => <a href={linkTo('accounts', account, 'keys')}>{account}</a>],
              [texts.keys.id, ({ id }) => <code>{id}</code>],
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
    </Section>
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
