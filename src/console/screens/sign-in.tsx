import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import icon from '../icon.svg';
import { sessionEnded, signIn } from '../session.ts';
import { texts } from '../texts.ts';
import { Field } from '../ui/fields.tsx';

/** The sign-in page, which exchanges a token for a session. */
export function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  const busy = useSignal(false);
  const refused = useSignal<Awaited<ReturnType<typeof signIn>>>(undefined);
  useEffect(() => {
    document.title = `${texts.signIn.title} · ${texts.product}`;
    field.current?.focus();
  }, []);
  const submit = async (): Promise<void> => {
    const input = field.current;
    if (input === null || input.value === '' || busy.value) return;
    busy.value = true;
    refused.value = await signIn(input.value.trim());
    busy.value = false;
    if (refused.value !== 'unreachable') input.select();
  };
  return (
    <main class="sign-in">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <p class="brand">
          <img src={icon} alt="" width="28" height="28" />
          <span>
            {texts.product}
            <span class="hint block">{texts.console}</span>
          </span>
        </p>
        <h1>{texts.signIn.title}</h1>
        {sessionEnded.value && (
          <p class="box warn" role="status">
            {texts.signIn.ended}
          </p>
        )}
        <Field label={texts.signIn.token} hint={texts.signIn.intro}>
          {(control) => (
            <input {...control} ref={field} type="password" autocomplete="current-password" spellcheck={false} />
          )}
        </Field>
        <div role="alert">
          {refused.value !== undefined && (
            <p class="box bad">
              {refused.value === 'unreachable' ? texts.unreachableShort : texts.signIn[refused.value]}
            </p>
          )}
        </div>
        <button class="primary" disabled={busy.value}>
          {texts.signIn.submit}
        </button>
      </form>
    </main>
  );
}
