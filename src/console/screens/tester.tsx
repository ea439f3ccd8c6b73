import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { api, ask, refusalOf } from '../api.ts';
import { dataOf, faultOf, isJson, open, seal, type Credentials, type Encoding, type Fault } from '../envelope.ts';
import { texts } from '../texts.ts';
import { Copy } from '../ui/copy.tsx';
import { Choice, Field, TextField, type TextProps } from '../ui/fields.tsx';

const say = texts.tester;

type Outcome = { readonly tone: 'good' | 'warn' | 'bad'; readonly text: string } | undefined;

/** Seals and opens in the browser. */
export function Tester({ given }: { given: Credentials | undefined }) {
  const key = useSignal('');
  const iv = useSignal('');
  const text = useSignal('{"amount":1000,"currency":"USD"}');
  const envelope = useSignal('');
  const encoding = useSignal<Encoding>('hex');
  const outcome = useSignal<Outcome>(undefined);
  const unopened = useSignal(false);
  useEffect(() => {
    if (given === undefined) return;
    key.value = given.key;
    iv.value = given.iv;
  }, [given, key, iv]);

  const failed = (fault: Fault): void => {
    outcome.value = { tone: 'bad', text: say.faults[fault] };
  };
  const credentials = (): Credentials | undefined => {
    const entered = { key: key.value, iv: iv.value };
    const fault = faultOf(entered);
    if (fault === undefined) return entered;
    failed(fault);
    return undefined;
  };
  const sealText = async (): Promise<void> => {
    unopened.value = false;
    const entered = credentials();
    if (entered === undefined) return;
    envelope.value = JSON.stringify({ data: await seal(text.value, entered, encoding.value) });
    outcome.value = isJson(text.value) ? { tone: 'good', text: say.sealed } : { tone: 'warn', text: say.notJson };
  };
  const findCause = async (): Promise<void> => {
    const entered = credentials();
    const data = dataOf(envelope.value.trim());
    if (entered === undefined || data === undefined) return;
    const refused = await refusalOf(async () => {
      const { cause } = await ask(api.POST('/api/v1/diagnosis', { body: { ...entered, data } }));
      outcome.value = cause === null ? { tone: 'good', text: say.opened } : { tone: 'bad', text: say.cause(cause) };
      unopened.value = false;
    });
    if (refused === undefined) return;
    outcome.value = { tone: 'bad', text: refused.code === 'unreachable' ? texts.unreachableShort : refused.message };
  };
  const openEnvelope = async (): Promise<void> => {
    const entered = credentials();
    if (entered === undefined) return;
    const opened = await open(envelope.value, entered);
    unopened.value = 'fault' in opened && opened.fault !== 'data_missing';
    if ('fault' in opened) {
      failed(opened.fault);
      return;
    }
    text.value = opened.text;
    outcome.value = { tone: 'good', text: say.opened };
  };

  return (
    <section class="card" aria-label={say.title}>
      <h2>{say.title}</h2>
      <p class="hint">{say.intro}</p>
      <div class="columns">
        <TextField label={texts.encryption.key} hint={texts.encryption.keyHint} of={key} code />
        <TextField label={texts.encryption.iv} hint={texts.encryption.ivHint} of={iv} code />
      </div>
      <div class="columns">
        <div>
          <Text label={say.text} of={text} />
          <div class="row">
            <button onClick={() => void sealText()}>{say.seal}</button>
            <Copy text={text.value} of={say.text} />
          </div>
        </div>
        <div>
          <Text label={say.envelope} of={envelope} />
          <div class="row">
            <button onClick={() => void openEnvelope()}>{say.open}</button>
            <Copy text={envelope.value} of={say.envelope} />
            <span class="grow" />
            <Choice label={say.encoding} of={encoding} options={texts.encodings} />
          </div>
        </div>
      </div>
      <div role="status" aria-live="polite">
        {outcome.value !== undefined && <p class={`box ${outcome.value.tone}`}>{outcome.value.text}</p>}
      </div>
      {unopened.value && (
        <div class="row">
          <button onClick={() => void findCause()}>{say.findCause}</button>
          <span class="hint">{say.findCauseHint}</span>
        </div>
      )}
    </section>
  );
}

function Text({ label, of }: TextProps) {
  return (
    <Field label={label}>
      {(control) => (
        <textarea
          {...control}
          class="code"
          rows={5}
          value={of.value}
          spellcheck={false}
          onInput={(event) => {
            of.value = event.currentTarget.value;
          }}
        />
      )}
    </Field>
  );
}
