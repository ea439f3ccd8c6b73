import { api, ask, type Overview } from '../api.ts';
import { now } from '../dates.ts';
import { useLoad } from '../load.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Chart } from '../ui/chart.tsx';
import { Card, Facts, Problems, Section, Show } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { When } from '../ui/when.tsx';
import { Graces } from './rotation.tsx';

const say = texts.overview;

/** A certificate that expires within this time is marked, as by the first alert. Milliseconds. */
const expiring = 30 * 86_400_000;

/** The state of this sidecar: what is in force, its limits, the last hour, and accounts with failures. */
export function OverviewPage() {
  const loaded = useLoad(() => ask(api.GET('/api/v1/overview')), 5_000);
  return (
    <>
      <h1>{texts.pages.overview}</h1>
      <Show loaded={loaded}>
        {(overview) => (
          <>
            <div class="columns">
              <State overview={overview} />
              <Limits limits={overview.limits} />
              {overview.counts !== null && <Counts counts={overview.counts} />}
            </div>
            <LastHour minutes={overview.last_hour} />
          </>
        )}
      </Show>
      <Failures />
      <Graces every={30_000} />
    </>
  );
}

/** Which files and connections are in force, and why a file is not. */
export function State({ overview }: { overview: Overview }) {
  const { ready, configuration, accounts_file: accountsFile, database, master_keys: masterKeys } = overview;
  return (
    <Card title={say.state}>
      <Facts
        facts={[
          [say.ready, verdict(ready, say.isReady, say.isNotReady)],
          [say.configuration, verdict(configuration.in_force, say.inForce, say.notInForceShort)],
          [say.accountsFile, accountsFile && verdict(accountsFile.in_force, say.inForce, say.notInForceShort)],
          [say.database, database && verdict(database.connected, say.connected, say.notConnected)],
          [say.masterKeys, masterKeys === 0 ? say.noMasterKey : masterKeys],
          [say.certificates, <Certificates certificates={overview.certificates} />],
          [say.version, overview.version],
        ]}
      />
      <Problems title={say.notInForce} problems={[...configuration.problems, ...(accountsFile?.problems ?? [])]} />
    </Card>
  );
}

function verdict(isGood: boolean, good: string, bad: string) {
  return <Badge tone={isGood ? 'good' : 'bad'}>{isGood ? good : bad}</Badge>;
}

function Certificates({ certificates }: Pick<Overview, 'certificates'>) {
  if (certificates.length === 0) return <>{texts.nothing}</>;
  return certificates.map(({ certificate, expires_at: expires }) => (
    <span key={certificate} class="block">
      <Badge tone={Date.parse(expires) < now.value + expiring ? 'warn' : 'plain'}>
        <code>{certificate}</code>
      </Badge>{' '}
      <When date={expires} />
    </span>
  ));
}

function Limits({ limits }: { limits: Overview['limits'] }) {
  const rows = [
    [say.connections, limits.connections],
    [say.inFlight, limits.in_flight],
    [say.buffered, limits.buffered],
  ] as const;
  return (
    <Card title={say.limits}>
      {rows.map(([name, { limit, used }]) => (
        <label key={name} class="meter">
          <span class="row between">
            <span>{name}</span>
            <span class="faint">{say.used(used.toLocaleString('en'), limit.toLocaleString('en'))}</span>
          </span>
          <meter min={0} max={limit} high={limit * 0.8} value={used} />
        </label>
      ))}
    </Card>
  );
}

function Counts({ counts }: { counts: NonNullable<Overview['counts']> }) {
  return (
    <Card title={texts.pages.accounts}>
      <Facts
        facts={[
          [texts.pages.accounts, counts.accounts.toLocaleString('en')],
          [texts.accounts.filters.encrypting, counts.accounts_encrypting.toLocaleString('en')],
          [say.keysDue, counts.keys_due.toLocaleString('en')],
          [say.keysExpiring, counts.keys_expiring.toLocaleString('en')],
          [say.credentialsDue, counts.credentials_due.toLocaleString('en')],
        ]}
      />
      <a href={linkTo('rotation')}>{texts.pages.rotation}</a>
    </Card>
  );
}

function LastHour({ minutes }: { minutes: Overview['last_hour'] }) {
  const times = minutes.map(({ time }) => Date.parse(time) / 1_000);
  const refused = minutes.map(({ refusals }) => Object.values(refusals).reduce((sum, count) => sum + count, 0));
  const series = [
    { title: say.requests, values: minutes.map(({ requests }) => requests) },
    { title: say.refusals, values: refused },
    { title: say.unopened, values: minutes.map(({ unopened }) => unopened) },
  ];
  return (
    <section aria-label={say.lastHour}>
      <h2>{say.lastHour}</h2>
      <div class="columns">
        {series.map(({ title, values }) => (
          <div key={title} class="card">
            <h3>{title}</h3>
            <Chart title={title} times={times} values={values} />
          </div>
        ))}
      </div>
      <ByCode minutes={minutes} />
    </section>
  );
}

function ByCode({ minutes }: { minutes: Overview['last_hour'] }) {
  const sums = new Map<string, number>();
  for (const { refusals } of minutes) {
    for (const [code, count] of Object.entries(refusals)) sums.set(code, (sums.get(code) ?? 0) + count);
  }
  if (sums.size === 0) return null;
  return (
    <ul>
      {[...sums]
        .toSorted(([, a], [, b]) => b - a)
        .map(([code, count]) => (
          <li key={code}>
            <Badge tone="warn">
              {code} {count}
            </Badge>{' '}
            <span class="hint">{texts.refusals[code] ?? ''}</span>
          </li>
        ))}
    </ul>
  );
}

function Failures() {
  const loaded = useLoad(() => ask(api.GET('/api/v1/failures')), 10_000);
  return (
    <Section title={say.failures} intro={say.failuresIntro}>
      <Show loaded={loaded}>
        {({ failures }) => (
          <Table
            label={say.failures}
            rows={failures}
            keyOf={({ account, environment }) => `${account} ${environment}`}
            columns={[
              [texts.columns.account, ({ account }) => <a href={linkTo('accounts', account, 'activity')}>{account}</a>],
              [texts.columns.environment, ({ environment }) => texts.environments[environment]],
              [say.refusals, ({ refusals }) => refusals],
              [say.requests, ({ requests }) => requests],
              [say.unopened, ({ unopened }) => unopened],
            ]}
            empty={say.noFailures}
          />
        )}
      </Show>
    </Section>
  );
}
