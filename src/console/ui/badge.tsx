import type { ComponentChildren } from 'preact';

export type Tone = 'good' | 'warn' | 'bad' | 'quiet' | 'plain';

/** Colour is never alone: each tone has a shape of its own beside the text. */
const shapes: Readonly<Record<Tone, string>> = { good: '●', warn: '▲', bad: '■', quiet: '○', plain: '' };

/** A state in a word or two. */
export function Badge({
  tone = 'plain',
  title,
  children,
}: {
  tone?: Tone;
  title?: string;
  children: ComponentChildren;
}) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {shapes[tone] !== '' && <span aria-hidden="true">{shapes[tone]} </span>}
      {children}
    </span>
  );
}
