import { api, ask, given, type EnvironmentName, type Overview, type Traffic } from '../api.ts';
import { useLoad } from '../load.ts';
import { inAddress, type Cell } from '../route.ts';
import { formatNumber, texts } from '../texts.ts';
import { Chart } from '../ui/chart.tsx';
import { Chips, EnvironmentChips } from '../ui/chips.tsx';
import { Card, Section, Show } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { AccountLink, When } from '../ui/inline.tsx';
import { Graces } from './rotation.tsx';
import { Verdict } from './verdict.tsx';

const say = texts.overview;

/** The state of this sidecar: its problems, its traffic, the accounts with the most refusals, and the use of its limits. */
export function OverviewPage() {
  const loaded = useLoad(() => ask(api.GET('/api/v1/overview')), 5_000);
  const environment = inAddress<EnvironmentName>('environment');
  const span = inAddress<'24h'>('span');
  const code = inAddress('code');
  return (
    <>
      <div class="row between">
        <h1>{texts.pages.overview}</h1>
        <div class="row">
          <EnvironmentChips of={environment} />
          <Chips<'1h' | '24h'> label={say.span} of={span} preset="1h" options={say.spans} />
        </div>
      </div>
      <Show loaded={loaded}>
        {(overview) => (
          <>
            <p class="hint">
              {say.version} {overview.version} · {say.since} <When date={overview.since} />
              {overview.counts !== null &&
                ` · ${say.counts(overview.counts.accounts, overview.counts.accounts_encrypting)}`}
            </p>
            <Verdict overview={overview} />
          </>
        )}
      </Show>
      <Requests
        key={`${environment.value} ${span.value}`}
        environment={environment.value}
        span={span.value}
        code={code}
      />
      <div class="columns uneven">
        <Failures key={`${environment.value} ${code.value}`} environment={environment.value} code={code.value} />
        <Show loaded={loaded}>{({ limits }) => <Room limits={limits} />}</Show>
      </div>
      <Graces every={30_000} />
    </>
  );
}

function Requests(props: { environment: EnvironmentName | ''; span: '24h' | ''; code: Cell<string> }) {
  const query = given({ environment: props.environment, span: props.span });
  const loaded = useLoad(() => ask(api.GET('/api/v1/traffic', { params: { query } })), 10_000);
  return (
    <Show loaded={loaded}>
      {({ slots, slot_seconds: seconds, refusals }) => (
        <div class="columns uneven">
          <Card title={say.requests(seconds / 60)}>
            <Chart slots={slots} />
          </Card>
          <Card title={say.refusals}>
            <Codes refusals={refusals} chosen={props.code} />
          </Card>
        </div>
      )}
    </Show>
  );
}

/** Shows refusals by code as bars. Pressing a bar limits the list of accounts below to those with such refusals. */
function Codes({ refusals, chosen }: { refusals: Traffic['refusals']; chosen: Cell<string> }) {
  if (refusals.length === 0) return <p class="faint">{texts.activity.none}</p>;
  const most = refusals[0]?.count ?? 1;
  return (
    <>
      <ul class="codes">
        {refusals.map(({ code, count }) => (
          <li key={code}>
            <button
              type="button"
              aria-pressed={chosen.value === code}
              title={texts.refusals[code]}
              onClick={() => (chosen.value = chosen.value === code ? '' : code)}
            >
              <span>{code}</span> <span class="bar" style={{ width: `${(count / most) * 100}%` }} />
              <span class="count">{formatNumber(count)}</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="hint">{chosen.value === '' ? say.barFilters : (texts.refusals[chosen.value] ?? '')}</p>
    </>
  );
}

/** Shows how full the limits are. */
function Room({ limits }: { limits: Overview['limits'] }) {
  const rows = [
    [say.connections, limits.connections, 1],
    [say.inFlight, limits.in_flight, 1],
    [say.buffered, limits.buffered, 2 ** 20],
  ] as const;
  return (
    <Card title={say.limits}>
      {rows.map(([name, { limit, used }, unit]) => (
        <label key={name} class="meter">
          <span class="row between">
            <span>{name}</span>
            <span class="faint">{say.used(used / unit, limit / unit)}</span>
          </span>
          <meter min={0} max={limit} high={limit * 0.8} value={used} />
        </label>
      ))}
    </Card>
  );
}

function Failures({ environment, code }: { environment: EnvironmentName | ''; code: string }) {
  const query = given({ environment, code: code as Traffic['refusals'][number]['code'] | '' });
  const loaded = useLoad(() => ask(api.GET('/api/v1/failures', { params: { query } })), 10_000);
  return (
    <Section title={say.failures} intro={code === '' ? say.failuresIntro : say.failuresWith(code)}>
      <Show loaded={loaded}>
        {({ failures }) => (
          <Table
            label={say.failures}
            rows={failures}
            keyOf={({ account, environment }) => `${account} ${environment}`}
            columns={[
              [texts.columns.account, ({ account }) => <AccountLink id={account} tab="activity" />],
              [texts.columns.environment, ({ environment }) => texts.environments[environment]],
              [say.refused, ({ refusals, requests }) => say.used(refusals, requests)],
              [say.mostly, ({ code }) => code !== null && <Explained code={code} />, 'wide'],
            ]}
            empty={say.noFailures}
          />
        )}
      </Show>
    </Section>
  );
}

function Explained({ code }: { code: string }) {
  return (
    <>
      <code>{code}</code> <span class="hint">{texts.refusals[code] ?? ''}</span>
    </>
  );
}
