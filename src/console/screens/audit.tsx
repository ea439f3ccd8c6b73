import { useSignal } from '@preact/signals';
import { api, ask, refusalOf, type AuditEvent, type Refused } from '../api.ts';
import { csvOf } from '../csv.ts';
import { inFull } from '../dates.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Choice, Field } from '../ui/fields.tsx';
import { Pages, type After } from '../ui/pages.tsx';
import { Problem, Table } from '../ui/states.tsx';

const say = texts.audit;

interface Wanted {
  readonly account: string;
  /** Days back; empty: from the beginning. */
  readonly days: string;
}

function eventsOf({ account, days }: Wanted, after: After, limit: number) {
  const since = days === '' ? undefined : new Date(Date.now() - Number(days) * 86_400_000).toISOString();
  const query = { limit, ...(account !== '' && { account }), ...(since !== undefined && { since }), ...after };
  return ask(api.GET('/api/v1/audit', { params: { query } }));
}

/** Who changed what and when, of all accounts. */
export function Audit() {
  const account = useSignal('');
  const days = useSignal<keyof typeof say.periods>('7');
  return (
    <>
      <h1>{texts.pages.audit}</h1>
      <div class="search">
        <Field label={say.account} hint={say.accountHint}>
          {(control) => (
            <input
              {...control}
              type="search"
              autocomplete="off"
              spellcheck={false}
              onChange={(event) => {
                account.value = event.currentTarget.value.trim();
              }}
            />
          )}
        </Field>
        <Choice label={say.period} of={days} options={say.periods} />
      </div>
      <Events key={`${account.value} ${days.value}`} account={account.value} days={days.value} />
    </>
  );
}

/** The selected events in pages, and all of them as CSV. */
export function Events(wanted: Wanted) {
  const refused = useSignal<Refused | undefined>(undefined);
  const exportAll = async (): Promise<void> => {
    refused.value = await refusalOf(async () => {
      download(`audit-${wanted.account === '' ? 'all' : wanted.account}.csv`, csvOf(await allEvents(wanted)));
    });
  };
  return (
    <Pages ask={(after) => eventsOf(wanted, after, 100)} every={10_000}>
      {({ events }) => (
        <>
          <Problem refused={refused.value} />
          {events.length > 0 && (
            <div class="row end">
              <button onClick={() => void exportAll()}>{say.export}</button>
            </div>
          )}
          <EventTable events={events} />
        </>
      )}
    </Pages>
  );
}

function EventTable({ events }: { events: readonly AuditEvent[] }) {
  const head = [say.time, say.actor, say.action, say.account, say.details];
  return (
    <Table label={texts.pages.audit} head={head} rows={events} empty={say.none}>
      {(event, i) => (
        <tr key={`${event.at} ${i}`}>
          <td>
            <time dateTime={event.at}>{inFull(event.at)}</time>
          </td>
          <td>
            <code>{event.actor}</code>
          </td>
          <td>{say.actions[event.action]}</td>
          <td>{event.account !== null && <a href={linkTo('accounts', event.account)}>{event.account}</a>}</td>
          <td>
            {Object.entries(event.details).map(([name, value]) => (
              <span key={name} class="block">
                <span class="faint">{name}</span> <code>{String(value)}</code>
              </span>
            ))}
          </td>
        </tr>
      )}
    </Table>
  );
}

async function allEvents(wanted: Wanted): Promise<AuditEvent[]> {
  const all: AuditEvent[] = [];
  let after: string | null = null;
  do {
    const { events, next }: Awaited<ReturnType<typeof eventsOf>> = await eventsOf(
      wanted,
      { ...(after !== null && { after }) },
      1_000,
    );
    all.push(...events);
    after = next;
  } while (after !== null);
  return all;
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
