import type { ComponentChildren } from 'preact';
import { distance, inFull, now } from '../dates.ts';
import { linkTo } from '../route.ts';
import { texts } from '../texts.ts';

type Tone = 'good' | 'warn' | 'bad' | 'quiet' | 'plain';

/** Each tone has a different shape, so that tones can be told apart without colours. */
const shapes: Readonly<Record<Tone, string>> = { good: '●', warn: '▲', bad: '■', quiet: '○', plain: '' };

/** Shows a state in a word or two. */
export function Badge(props: { tone?: Tone; title?: string; children: ComponentChildren }) {
  const { tone = 'plain', title, children } = props;
  return (
    <span class={`badge ${tone}`} title={title}>
      {shapes[tone] !== '' && <span aria-hidden="true">{shapes[tone]} </span>}
      {children}
    </span>
  );
}

/** Shows whether an account is active. */
export function ActiveBadge({ active }: { active: boolean }) {
  return <Badge tone={active ? 'good' : 'quiet'}>{active ? texts.active : texts.inactive}</Badge>;
}

/** Shows a time relative to now, with the full time as its title. Null means never; undefined means not recorded. */
export function When({ date }: { date: string | null | undefined }) {
  if (date === undefined) return <span class="faint">{texts.notRecorded}</span>;
  if (date === null) return <span class="faint">{texts.never}</span>;
  return (
    <time dateTime={date} title={inFull(date)}>
      {distance(Date.parse(date), now.value)}
    </time>
  );
}

/** The id of an account as a link to the account. A table shows as much of the id as fits; the title shows all of it. */
export function AccountLink({ id, tab }: { id: string; tab?: 'keys' | 'encryption' | 'activity' }) {
  return (
    <a class="id" href={linkTo('accounts', id, ...(tab === undefined ? [] : [tab]))} title={id}>
      {id}
    </a>
  );
}

/** The id of something other than an account, such as a key. */
export function Id({ id }: { id: string }) {
  return (
    <code class="id" title={id}>
      {id}
    </code>
  );
}
