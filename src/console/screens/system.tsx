import { api, ask, type Member, type Overview } from '../api.ts';
import { useLoad } from '../load.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Card, Facts, Problems, Section, Show } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { When } from '../ui/when.tsx';
import { State } from './overview.tsx';

const say = texts.system;

/** The configuration in force, and the members that need a restart. */
export function SystemPage() {
  const overview = useLoad(() => ask(api.GET('/api/v1/overview')), 10_000);
  const configuration = useLoad(() => ask(api.GET('/api/v1/configuration')), 10_000);
  return (
    <>
      <h1>{texts.pages.system}</h1>
      <Show loaded={overview}>
        {(overview) => (
          <div class="columns">
            <State overview={overview} />
            <Loaded overview={overview} />
          </div>
        )}
      </Show>
      <Section title={say.configuration} intro={say.configurationIntro}>
        <Show loaded={configuration}>{({ members }) => <Members members={members} />}</Show>
      </Section>
    </>
  );
}

function Loaded({ overview }: { overview: Overview }) {
  const { configuration, accounts_file: accountsFile } = overview;
  return (
    <Card title={say.loaded}>
      <Facts
        facts={[
          [texts.overview.configuration, <When date={configuration.loaded_at} />],
          [texts.overview.accountsFile, accountsFile && <When date={accountsFile.loaded_at} />],
        ]}
      />
      {configuration.needs_restart.length === 0 ? (
        <p class="hint">{say.noRestart}</p>
      ) : (
        <Problems title={say.waiting} problems={configuration.needs_restart} />
      )}
    </Card>
  );
}

function Members({ members }: { members: readonly Member[] }) {
  return (
    <Table
      label={say.configuration}
      rows={members}
      keyOf={({ member }) => member}
      columns={[
        [say.member, ({ member }) => <code>{member}</code>],
        [say.value, (member) => <Value {...member} />, 'wide'],
        [say.source, (member) => <Source {...member} />],
        [
          say.change,
          (member) =>
            member.needs_restart ? <Badge tone="warn">{say.restart}</Badge> : <span class="faint">{say.atOnce}</span>,
        ],
      ]}
    />
  );
}

function Value({ value, secret }: Member) {
  if (value === null) return <span class="faint">{say.notSet}</span>;
  return secret ? <span class="faint">{say.secret}</span> : <code>{value}</code>;
}

function Source({ value, source }: Member) {
  if (value === null) return null;
  if (source === null) return <span class="faint">{say.default}</span>;
  return source === 'inline' ? <span>{say.inline}</span> : <code>{source}</code>;
}
