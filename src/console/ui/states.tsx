import type { ComponentChildren } from 'preact';
import type { Loaded } from '../load.ts';
import { texts } from '../texts.ts';
import { Problem } from './problem.tsx';

/** The loaded data, or why it could not be loaded. Data stays visible while the API is unreachable. */
export function Show<Data>({
  loaded,
  children,
}: {
  loaded: Loaded<Data>;
  children: (data: Data) => ComponentChildren;
}) {
  const { data, refused, reload } = loaded;
  return (
    <>
      {refused.value !== undefined && refused.value.code !== 'unreachable' && <Problem refused={refused.value} />}
      {data.value !== undefined && children(data.value)}
      {data.value === undefined && refused.value === undefined && <p class="faint">{texts.loading}</p>}
      {data.value === undefined && refused.value?.code === 'unreachable' && (
        <button onClick={() => void reload()}>{texts.retry}</button>
      )}
    </>
  );
}

/** A table that scrolls if the window is narrow. */
export function Table({
  label,
  head,
  children,
}: {
  label: string;
  head: readonly string[];
  children: ComponentChildren;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((text) => (
              <th key={text} scope="col">
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** The accounts that cannot be read from the store. */
export function Unreadable({ problems }: { problems: readonly string[] }) {
  if (problems.length === 0) return null;
  return (
    <div class="box bad">
      <p>{texts.rotation.unreadable}</p>
      <ul>
        {problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
    </div>
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
