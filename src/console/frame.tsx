import { useEffect, useRef } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import icon from './icon.svg';
import { notice } from './notices.ts';
import { linkTo, path, place } from './route.ts';
import { AccountPage } from './screens/account.tsx';
import { Accounts } from './screens/accounts.tsx';
import { Audit } from './screens/audit.tsx';
import { OverviewPage } from './screens/overview.tsx';
import { Rotation } from './screens/rotation.tsx';
import { SignIn } from './screens/sign-in.tsx';
import { SystemPage } from './screens/system.tsx';
import { isReadOnly, session, signOut, unreachable, type Session } from './session.ts';
import { set } from './set.ts';
import { texts } from './texts.ts';

/** The pages of a token for all accounts, in the order of the menu; the first is shown at the start. */
const pages = {
  overview: OverviewPage,
  accounts: Accounts,
  rotation: Rotation,
  audit: Audit,
  system: SystemPage,
} as const;
type PageName = keyof typeof pages;

/** The whole page: the menu and what was chosen from it, or the sign-in. */
export function Frame() {
  const signedIn = session.value;
  if (signedIn === undefined) return null;
  return (
    <>
      <Live />
      {signedIn === null ? <SignIn /> : <SignedIn session={signedIn} />}
    </>
  );
}

function SignedIn({ session }: { session: Session }) {
  const main = useRef<HTMLElement>(null);
  const [first, ...rest] = path.value;
  const isFirst = useRef(true);
  // With a keyboard or a screen reader, reading continues at the new page, not after the link.
  useEffect(() => {
    document.title = `${titleOf(session, path.value)} · ${texts.product}`;
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [place.value, session]);
  return (
    <div class="frame">
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        {texts.skip}
      </a>
      <header>
        <p class="brand">
          <img src={icon} alt="" width="22" height="22" />
          <span>{texts.product}</span>
        </p>
        <nav aria-label={texts.menu}>{session.account === null ? <Menu current={first} /> : null}</nav>
        <div class="who">
          <p class="hint">{texts.signedInAs(session.name, session.role)}</p>
          <button class="small" onClick={() => void signOut()}>
            {texts.signOut}
          </button>
        </div>
      </header>
      <main ref={main} tabIndex={-1} id="content">
        {unreachable.value && (
          <p class="box warn" role="status">
            {texts.unreachable}
          </p>
        )}
        {isReadOnly() && <p class="box warn">{texts.readOnly}</p>}
        {pageOf(session, first, rest)}
      </main>
    </div>
  );
}

function Menu({ current }: { current: string | undefined }) {
  return (
    <ul>
      {(Object.keys(pages) as PageName[]).map((name, i) => (
        <li key={name}>
          <a
            href={linkTo(name)}
            aria-current={name === current || (current === undefined && i === 0) ? 'page' : undefined}
          >
            {texts.pages[name]}
          </a>
        </li>
      ))}
    </ul>
  );
}

function pageOf({ account }: Session, first: string | undefined, rest: readonly string[]): ComponentChildren {
  if (account !== null)
    return <AccountPage key={account} id={account} tab={first === 'accounts' ? rest[1] : undefined} />;
  const [id, tab] = rest;
  if (first === 'accounts' && id !== undefined) return <AccountPage key={id} id={id} tab={tab} />;
  const name = first ?? Object.keys(pages)[0] ?? '';
  if (!isPage(name)) return <p class="box warn">{texts.pageUnknown}</p>;
  const Page = pages[name];
  return <Page />;
}

function isPage(name: string): name is PageName {
  return Object.hasOwn(pages, name);
}

function titleOf({ account }: Session, [first, id]: readonly string[]): string {
  if (account !== null) return account;
  if (first === 'accounts' && id !== undefined) return id;
  return texts.pages[isPage(first ?? '') ? (first as PageName) : 'overview'];
}

/** The live region for screen readers. */
function Live() {
  const shown = notice.value;
  return (
    <div class="notice" role="status" aria-live="polite">
      {shown !== undefined && (
        <p class={`box ${shown.tone}`}>
          <span class="grow">{shown.text}</span>
          <button class="small" onClick={set(notice, undefined)}>
            {texts.dismiss}
          </button>
        </p>
      )}
    </div>
  );
}
