import { Fragment, type ComponentChildren } from 'preact';
import type { Refused } from '../api.ts';
import type { Loaded } from '../load.ts';
import { texts } from '../texts.ts';

/** The loaded data, or why it could not be loaded. Data stays visible while the API is unreachable. */
export function Show<Data>(props: { loaded: Loaded<Data>; children: (data: Data) => ComponentChildren }) {
  const { data, refused, reload } = props.loaded;
  return (
    <>
      {refused.value !== undefined && refused.value.code !== 'unreachable' && <Problem refused={refused.value} />}
      {data.value !== undefined && props.children(data.value)}
      {data.value === undefined && refused.value === undefined && <p class="faint">{texts.loading}</p>}
      {data.value === undefined && refused.value?.code === 'unreachable' && (
        <button onClick={() => void reload()}>{texts.retry}</button>
      )}
    </>
  );
}

/** Shows why a request failed. */
export function Problem({ refused }: { refused: Refused | undefined }) {
  if (refused === undefined || refused.code === 'unauthorized') return null;
  const text =
    refused.code === 'unreachable' ? texts.unreachableShort : (texts.problems[refused.code] ?? refused.message);
  return (
    <div class="box bad" role="alert">
      <p>{text}</p>
      {refused.requestId !== undefined && <p class="hint">{texts.requestId(refused.requestId)}</p>}
    </div>
  );
}

/** A list of problems under a title; without problems, nothing. */
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

/** A table that scrolls if the window is narrow; without rows, the text `empty`. */
export function Table<Row>(props: {
  label: string;
  head: readonly string[];
  rows: readonly Row[];
  empty?: string;
  children: (row: Row, index: number) => ComponentChildren;
}) {
  if (props.rows.length === 0) return <p class="empty">{props.empty}</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.head.map((text) => (
              <th key={text} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.rows.map(props.children)}</tbody>
      </table>
    </div>
  );
}

/** Names and their values. A fact without a value is left out. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(
        ([name, value]) =>
          value !== null && (
            <Fragment key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </Fragment>
          ),
      )}
    </dl>
  );
}

/** A part of a page with a line of explanation. */
export function Section({ title, intro, children }: { title: string; intro: string; children: ComponentChildren }) {
  return (
    <section aria-label={title}>
      <div>
        <h2>{title}</h2>
        <p class="hint">{intro}</p>
      </div>
      {children}
    </section>
  );
}
