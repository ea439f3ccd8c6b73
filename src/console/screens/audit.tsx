import { useSignal } from '@preact/signals';
import { api, ask, Refused, type AuditEvent } from '../api.ts';
import { csvOf } from '../csv.ts';
import { inFull } from '../dates.ts';
import { useLoad } from '../load.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Choice, Field } from '../ui/fields.tsx';
import { Pager } from '../ui/pager.tsx';
import { Problem } from '../ui/problem.tsx';
import { Show, Table } from '../ui/states.tsx';
import { Unreadable } from './rotation.tsx';

const say = texts.audit;

interface Wanted {
  readonly account: string;
  /** Days back; empty: from the beginning. */
  readonly days: string;
}

function eventsOf({ account, days }: Wanted, after: string | undefined, limit: number) {
  const since = days === '' ? undefined : new Date(Date.now() - Number(days) * 86_400_000).toISOString();
  const query = {
    limit,
    ...(account !== '' && { account }),
    ...(since !== undefined && { since }),
    ...(after !== undefined && { after }),
  };
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
        <Choice
          label={say.period}
          value={days.value}
          options={say.periods}
          onChange={(value) => {
            days.value = value;
          }}
        />
      </div>
      <Events key={`${account.value} ${days.value}`} account={account.value} days={days.value} />
    </>
  );
}

/** The events that are wanted, page by page, and all of them as CSV. */
export function Events(wanted: Wanted) {
  const after = useSignal<string | undefined>(undefined);
  const refused = useSignal<Refused | undefined>(undefined);
  const loaded = useLoad(() => eventsOf(wanted, after.value, 100), after.value ?? '', 10_000);
  const exportAll = async (): Promise<void> => {
    try {
      download(`audit-${wanted.account === '' ? 'all' : wanted.account}.csv`, csvOf(await allEvents(wanted)));
      refused.value = undefined;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused.value = error;
    }
  };
  return (
    <Show loaded={loaded}>
      {({ events, next, unreadable }) => (
        <>
          <Unreadable problems={unreadable} />
          <Problem refused={refused.value} />
          {events.length === 0 ? (
            <p class="empty">{say.none}</p>
          ) : (
            <>
              <div class="row end">
                <button onClick={() => void exportAll()}>{say.export}</button>
              </div>
              <EventTable events={events} />
            </>
          )}
          <Pager after={after} next={next} />
        </>
      )}
    </Show>
  );
}

function EventTable({ events }: { events: readonly AuditEvent[] }) {
  return (
    <Table label={texts.pages.audit} head={[say.time, say.actor, say.action, say.account, say.details]}>
      {events.map((event, i) => (
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
      ))}
    </Table>
  );
}

async function allEvents(wanted: Wanted): Promise<AuditEvent[]> {
  const all: AuditEvent[] = [];
  let after: string | undefined;
  do {
    const { events, next } = await eventsOf(wanted, after, 1_000);
    all.push(...events);
    after = next ?? undefined;
  } while (after !== undefined);
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
