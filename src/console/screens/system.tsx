import { api, ask, type Member, type Overview } from '../api.ts';
import { isEndingSoon } from '../dates.ts';
import { useLoad } from '../load.ts';
import { texts } from '../texts.ts';
import { Badge, When } from '../ui/inline.tsx';
import { Card, Facts, Problems, Section, Show } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';

const say = texts.system;

/** The current configuration, and the members that need a restart. */
export function SystemPage() {
  const overview = useLoad(() => ask(api.GET('/api/v1/overview')), 10_000);
  const configuration = useLoad(() => ask(api.GET('/api/v1/configuration')), 10_000);
  return (
    <>
      <h1>{texts.pages.system}</h1>
      <Show loaded={overview}>{(overview) => <State overview={overview} />}</Show>
      <Section title={say.configuration} intro={say.configurationIntro}>
        <Show loaded={configuration}>{({ members }) => <Members members={members} />}</Show>
      </Section>
    </>
  );
}

/** Shows which files are in force, the reason for each that is not, and whether the database is connected. */
function State({ overview }: { overview: Overview }) {
  const { ready, configuration, accounts_file: accountsFile, database, master_keys: masterKeys } = overview;
  return (
    <Card title={texts.overview.state}>
      <Facts
        facts={[
          [texts.overview.ready, verdict(ready, texts.overview.isReady, texts.overview.isNotReady)],
          [texts.overview.configuration, <InForce {...configuration} />],
          [texts.overview.accountsFile, accountsFile && <InForce {...accountsFile} />],
          [
            texts.overview.database,
            database && verdict(database.connected, texts.overview.connected, texts.overview.notConnected),
          ],
          [texts.overview.masterKeys, masterKeys === 0 ? texts.overview.noMasterKey : masterKeys],
          [texts.overview.certificates, <Certificates certificates={overview.certificates} />],
          [texts.overview.version, overview.version],
        ]}
      />
      <NotInForce overview={overview} />
      {configuration.needs_restart.length === 0 && <p class="hint">{say.noRestart}</p>}
      <Problems title={say.waiting} problems={configuration.needs_restart} />
    </Card>
  );
}

function verdict(isGood: boolean, good: string, bad: string) {
  return <Badge tone={isGood ? 'good' : 'bad'}>{isGood ? good : bad}</Badge>;
}

function InForce({ in_force: inForce, loaded_at: at }: Pick<Overview['configuration'], 'in_force' | 'loaded_at'>) {
  return (
    <>
      {verdict(inForce, texts.overview.inForce, texts.overview.notInForceShort)}{' '}
      <span class="hint">
        {say.loaded} <When date={at} />
      </span>
    </>
  );
}

/** Shows why files are not in force. */
export function NotInForce({ overview }: { overview: Overview }) {
  const files = [overview.configuration, overview.accounts_file];
  return <Problems title={texts.overview.notInForce} problems={files.flatMap((file) => file?.problems ?? [])} />;
}

function Certificates({ certificates }: Pick<Overview, 'certificates'>) {
  if (certificates.length === 0) return <>{texts.nothing}</>;
  return certificates.map(({ certificate, expires_at: expires }) => (
    <span key={certificate} class="block">
      <code>{certificate}</code>{' '}
      <Badge tone={isEndingSoon(expires) ? 'warn' : 'plain'}>
        <When date={expires} />
      </Badge>
    </span>
  ));
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
  return <code>{source === 'inline' ? say.inline : source}</code>;
}
