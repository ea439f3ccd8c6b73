import type { ComponentChildren } from 'preact';
import { texts } from '../texts.ts';

type Tone = 'good' | 'warn' | 'bad' | 'quiet' | 'plain';

/** Each tone has a different shape, so that it does not depend on colour alone. */
const shapes: Readonly<Record<Tone, string>> = { good: '●', warn: '▲', bad: '■', quiet: '○', plain: '' };

/** A state in a word or two. */
export function Badge(props: { tone?: Tone; title?: string; children: ComponentChildren }) {
  const { tone = 'plain', title, children } = props;
  return (
    <span class={`badge ${tone}`} title={title}>
      {shapes[tone] !== '' && <span aria-hidden="true">{shapes[tone]} </span>}
      {children}
    </span>
  );
}

/** Whether an account is active. */
export function ActiveBadge({ active }: { active: boolean }) {
  return <Badge tone={active ? 'good' : 'quiet'}>{active ? texts.active : texts.inactive}</Badge>;
}
