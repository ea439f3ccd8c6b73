import { Fragment, type ComponentChildren } from 'preact';
import type { Refused } from '../api.ts';
import type { Loaded } from '../load.ts';
import { texts } from '../texts.ts';

/** Shows the loaded data, or why it could not be loaded. Data stays visible while the API is unreachable. */
export function Show<Data>(props: { loaded: Loaded<Data>; children: (data: Data) => ComponentChildren }) {
  const { data, refused, reload } = props.loaded;
  return (
    <>
      {refused.value !== undefined && refused.value.code !== 'unreachable' && <Problem refused={refused.value} />}
      {data.value !== undefined && props.children(data.value)}
      {data.value === undefined && refused.value === undefined && <Skeleton />}
      {data.value === undefined && refused.value?.code === 'unreachable' && (
        <button onClick={reload}>{texts.retry}</button>
      )}
    </>
  );
}

/** A placeholder for data that is loading, so that the page does not jump. */
function Skeleton() {
  return (
    <div class="skeleton" role="status" aria-label={texts.loading}>
      <div />
      <div />
      <div />
    </div>
  );
}

/** Shows why a request failed. */
export function Problem({ refused }: { refused: Refused | undefined }) {
  if (refused === undefined || refused.code === 'unauthorized') return null;
  return (
    <div class="box bad" role="alert">
      <p>{refused.message}</p>
      {refused.requestId !== undefined && (
        <p class="hint">
          {texts.requestId} <span class="id">{refused.requestId}</span>
        </p>
      )}
    </div>
  );
}

/** A list of problems under a title; nothing if there are no problems. */
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

/** Names and their values. A fact whose value is null is left out. */
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

/** A framed part of a page. */
export function Card({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}
