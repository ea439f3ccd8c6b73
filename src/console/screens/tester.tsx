import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { api, ask, Refused } from '../api.ts';
import { readData, findFault, isJson, open, seal, type Credentials, type Encoding } from '../envelope.ts';
import { setText } from '../route.ts';
import { texts } from '../texts.ts';
import { Copy } from '../ui/copy.tsx';
import { Choice, Field, TextField, type TextProps } from '../ui/fields.tsx';
import { Card } from '../ui/states.tsx';

const say = texts.tester;

interface Outcome {
  readonly tone: 'good' | 'warn' | 'bad';
  readonly text: string;
  /** Whether the sidecar can be asked why the envelope cannot be opened. */
  readonly unopened?: boolean;
}

/** Seals and opens envelopes in the browser. @param props.given new credentials to fill in */
export function Tester({ given }: { given: Credentials | undefined }) {
  const { key, iv, text, envelope, encoding, outcome, ...tester } = useTester(given);
  return (
    <Card title={say.title}>
      <p class="hint">{say.intro}</p>
      <div class="columns">
        <TextField label={texts.encryption.key} hint={texts.encryption.keyHint} of={key} code />
        <TextField label={texts.encryption.iv} hint={texts.encryption.ivHint} of={iv} code />
      </div>
      <div class="columns">
        <div>
          <Text label={say.text} of={text} />
          <div class="row">
            <button onClick={() => void tester.seal()}>{say.seal}</button>
            <Copy text={text.value} of={say.text} />
          </div>
        </div>
        <div>
          <Text label={say.envelope} of={envelope} />
          <div class="row">
            <button onClick={() => void tester.open()}>{say.open}</button>
            <Copy text={envelope.value} of={say.envelope} />
            <span class="grow" />
            <Choice label={say.encoding} of={encoding} options={texts.encodings} />
          </div>
        </div>
      </div>
      <div role="status" aria-live="polite">
        {outcome.value !== undefined && <p class={`box ${outcome.value.tone}`}>{outcome.value.text}</p>}
      </div>
      {outcome.value?.unopened === true && (
        <div class="row">
          <button onClick={() => void tester.findCause()}>{say.findCause}</button>
          <span class="hint">{say.findCauseHint}</span>
        </div>
      )}
    </Card>
  );
}

/** The contents of the tester's fields, and the tester's actions. */
function useTester(given: Credentials | undefined) {
  const key = useSignal('');
  const iv = useSignal('');
  const text = useSignal('{"amount":1000,"currency":"USD"}');
  const envelope = useSignal('');
  const encoding = useSignal<Encoding>('hex');
  const outcome = useSignal<Outcome | undefined>(undefined);
  useEffect(() => {
    if (given === undefined) return;
    key.value = given.key;
    iv.value = given.iv;
  }, [given, key, iv]);

  /** Runs an action with the key and the IV and shows the outcome. If the key or the IV is wrong, shows the mistake instead. */
  const run = async (action: (credentials: Credentials) => Promise<Outcome>): Promise<void> => {
    const credentials = { key: key.value, iv: iv.value };
    const fault = findFault(credentials);
    outcome.value = fault === undefined ? await action(credentials) : { tone: 'bad', text: say.faults[fault] };
  };
  const sealText = async (credentials: Credentials): Promise<Outcome> => {
    envelope.value = JSON.stringify({ data: await seal(text.value, credentials, encoding.value) });
    return isJson(text.value) ? { tone: 'good', text: say.sealed } : { tone: 'warn', text: say.notJson };
  };
  const openEnvelope = async (credentials: Credentials): Promise<Outcome> => {
    const opened = await open(envelope.value, credentials);
    if ('fault' in opened) {
      return { tone: 'bad', text: say.faults[opened.fault], unopened: opened.fault !== 'data_missing' };
    }
    text.value = opened.text;
    return { tone: 'good', text: say.opened };
  };
  const diagnose = async (credentials: Credentials): Promise<Outcome> => {
    const data = readData(envelope.value.trim());
    if (data === undefined) return { tone: 'bad', text: say.faults.data_missing };
    try {
      const { cause } = await ask(api.POST('/api/v1/diagnosis', { body: { ...credentials, data } }));
      return cause === null ? { tone: 'good', text: say.opened } : { tone: 'bad', text: say.cause(cause) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { tone: 'bad', text: error.message, unopened: true };
    }
  };
  const actions = { seal: () => run(sealText), open: () => run(openEnvelope), findCause: () => run(diagnose) };
  return { key, iv, text, envelope, encoding, outcome, ...actions };
}

function Text({ label, of }: TextProps) {
  return (
    <Field label={label}>
      {(control) => (
        <textarea {...control} class="code" rows={5} value={of.value} spellcheck={false} onInput={setText(of)} />
      )}
    </Field>
  );
}
