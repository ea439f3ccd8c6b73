import { useEffect, useRef } from 'preact/hooks';
import icon from './icon.svg';
import { notice } from './notices.ts';
import { path, place, set } from './route.ts';
import { AccountPage } from './screens/account.tsx';
import { Accounts } from './screens/accounts.tsx';
import { Audit } from './screens/audit.tsx';
import { OverviewPage } from './screens/overview.tsx';
import { Rotation } from './screens/rotation.tsx';
import { SignIn } from './screens/sign-in.tsx';
import { SystemPage } from './screens/system.tsx';
import { isReadOnly, session, signOut, unreachable, type Session } from './session.ts';
import { texts } from './texts.ts';
import { Nav } from './ui/nav.tsx';

/** The pages that an operator with a token for all accounts sees, in menu order. */
const pages = {
  overview: OverviewPage,
  accounts: Accounts,
  rotation: Rotation,
  audit: Audit,
  system: SystemPage,
} as const;
type PageName = keyof typeof pages;
const pageNames = Object.keys(pages) as PageName[];
const firstPage = 'overview';

/** The menu and the selected page, or the sign-in page. */
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
  const isFirst = useRef(true);
  const [first = firstPage, named, tab] = path.value;
  const account = session.account ?? (first === 'accounts' ? named : undefined);
  const title = account ?? texts.pages[isPage(first) ? first : firstPage];
  // Move the focus to the new page, so that keyboard and screen-reader users continue there, not after the link.
  useEffect(() => {
    document.title = `${title} · ${texts.product}`;
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
        {session.account === null && <Nav label={texts.menu} names={pageNames} current={first} />}
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
        {account === undefined ? (
          <Page name={first} />
        ) : (
          <AccountPage key={account} id={account} tab={first === 'accounts' ? tab : undefined} />
        )}
      </main>
    </div>
  );
}

function Page({ name }: { name: string }) {
  if (!isPage(name)) return <h1>{texts.pageUnknown}</h1>;
  const Shown = pages[name];
  return <Shown />;
}

function isPage(name: string): name is PageName {
  return Object.hasOwn(pages, name);
}

/** The last notice, in a live region for screen readers. */
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
