import { Fragment } from 'preact';
import { api, ask, type Overview } from '../api.ts';
import { now } from '../dates.ts';
import { useLoad } from '../load.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Badge, type Tone } from '../ui/badge.tsx';
import { Chart } from '../ui/chart.tsx';
import { Section, Show, Table } from '../ui/states.tsx';
import { When } from '../ui/when.tsx';
import { Graces } from './rotation.tsx';

const say = texts.overview;

/** How long before its end a certificate gets a mark, in milliseconds: as long as its first alert. */
const expiring = 30 * 86_400_000;

/** The state of this sidecar: what is in force, its limits, the last hour, and accounts with failures. */
export function OverviewPage() {
  const loaded = useLoad(() => ask(api.GET('/api/v1/overview')), '', 5_000);
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

/** What is in force, and why not. */
export function State({ overview }: { overview: Overview }) {
  const { ready, configuration, accounts_file: accountsFile, database, master_keys: masterKeys } = overview;
  return (
    <section class="card" aria-label={say.state}>
      <h2>{say.state}</h2>
      <dl class="facts">
        <Fact name={say.ready} tone={ready ? 'good' : 'bad'} text={ready ? say.isReady : say.isNotReady} />
        <Fact name={say.configuration} {...inForce(configuration.in_force)} />
        {accountsFile !== null && <Fact name={say.accountsFile} {...inForce(accountsFile.in_force)} />}
        {database !== null && (
          <Fact
            name={say.database}
            tone={database.connected ? 'good' : 'bad'}
            text={database.connected ? say.connected : say.notConnected}
          />
        )}
        <dt>{say.masterKeys}</dt>
        <dd>{masterKeys === 0 ? say.noMasterKey : masterKeys}</dd>
        <dt>{say.certificates}</dt>
        <dd>
          {overview.certificates.length === 0 && texts.nothing}
          {overview.certificates.map(({ certificate, expires_at: expires }) => (
            <span key={certificate} class="block">
              <Badge tone={Date.parse(expires) < now.value + expiring ? 'warn' : 'plain'}>
                <code>{certificate}</code>
              </Badge>{' '}
              <When date={expires} />
            </span>
          ))}
        </dd>
        <dt>{say.version}</dt>
        <dd>{overview.version}</dd>
      </dl>
      <Problems title={say.notInForce} problems={[...configuration.problems, ...(accountsFile?.problems ?? [])]} />
    </section>
  );
}

function inForce(isInForce: boolean): { tone: Tone; text: string } {
  return isInForce ? { tone: 'good', text: say.inForce } : { tone: 'bad', text: say.notInForceShort };
}

function Fact({ name, tone, text }: { name: string; tone: Tone; text: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <Badge tone={tone}>{text}</Badge>
      </dd>
    </>
  );
}

/** Reasons, in a list. */
export function Problems({ title, problems }: { title: string; problems: readonly string[] }) {
  if (problems.length === 0) return null;
  return (
    <div class="box bad">
      <p>{title}</p>
      <ul>
        {problems.map((problem) => (
          <li key={problem}>
            <code>{problem}</code>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Limits({ limits }: { limits: Overview['limits'] }) {
  const rows = [
    [say.connections, limits.connections],
    [say.inFlight, limits.in_flight],
    [say.buffered, limits.buffered],
  ] as const;
  return (
    <section class="card" aria-label={say.limits}>
      <h2>{say.limits}</h2>
      {rows.map(([name, { limit, used }]) => (
        <label key={name} class="meter">
          <span class="row between">
            <span>{name}</span>
            <span class="faint">{say.used(used.toLocaleString('en'), limit.toLocaleString('en'))}</span>
          </span>
          <meter min={0} max={limit} high={limit * 0.8} value={used} />
        </label>
      ))}
    </section>
  );
}

function Counts({ counts }: { counts: NonNullable<Overview['counts']> }) {
  const facts: readonly (readonly [name: string, count: number])[] = [
    [say.accounts, counts.accounts],
    [say.encrypting, counts.accounts_encrypting],
    [say.keysDue, counts.keys_due],
    [say.keysExpiring, counts.keys_expiring],
    [say.credentialsDue, counts.credentials_due],
  ];
  return (
    <section class="card" aria-label={texts.pages.accounts}>
      <h2>{texts.pages.accounts}</h2>
      <dl class="facts">
        {facts.map(([name, count]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{count.toLocaleString('en')}</dd>
          </Fragment>
        ))}
      </dl>
      <a href={linkTo('rotation')}>{texts.pages.rotation}</a>
    </section>
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
  const loaded = useLoad(() => ask(api.GET('/api/v1/failures')), '', 10_000);
  return (
    <Section title={say.failures} intro={say.failuresIntro}>
      <Show loaded={loaded}>
        {({ failures }) =>
          failures.length === 0 ? (
            <p class="empty">{say.noFailures}</p>
          ) : (
            <Table
              label={say.failures}
              head={[say.account, texts.keys.environment, say.refusals, say.requests, say.unopened]}
            >
              {failures.map(({ account, environment, refusals, requests, unopened }) => (
                <tr key={`${account} ${environment}`}>
                  <th scope="row">
                    <a href={linkTo('accounts', account, 'activity')}>{account}</a>
                  </th>
                  <td>{texts.environments[environment]}</td>
                  <td>{refusals}</td>
                  <td>{requests}</td>
                  <td>{unopened}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </Show>
    </Section>
  );
}
