import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, ask, catchRefusal, type Due, type IssuedKey } from '../api.ts';
import { download } from '../csv.ts';
import { texts } from '../texts.ts';
import { Copy } from '../ui/copy.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Choice } from '../ui/fields.tsx';
import { Table } from '../ui/table.tsx';

const say = texts.rotateSeveral;

/** The account and the id of a key. */
export type DueKey = Pick<Due, 'account'> & { readonly id: string };

/** A key and, once its rotation is done, the outcome: the key's successor, or why the rotation was refused. */
interface Work {
  readonly key: DueKey;
  readonly outcome: IssuedKey | { readonly refused: string } | undefined;
}

/** Rotates keys one after another and shows their successors once. @param props.onClose receives whether keys were rotated */
export function RotateSeveral({ keys, onClose }: { keys: readonly DueKey[]; onClose: (rotated: boolean) => void }) {
  const overlap = useSignal<keyof typeof texts.keys.overlaps>('7d');
  const work = useSignal<readonly Work[]>(keys.map((key) => ({ key, outcome: undefined })));
  const state = useSignal<'asking' | 'running' | 'done'>('asking');
  // Rotating stops when the operator leaves the page, because nobody would see the secrets of keys that are rotated after that.
  const isGone = useRef(false);
  useEffect(() => {
    const warn = (event: Event): void => {
      if (state.value === 'running') event.preventDefault();
    };
    addEventListener('beforeunload', warn);
    return () => {
      isGone.current = true;
      removeEventListener('beforeunload', warn);
    };
  }, []);
  const run = async (): Promise<void> => {
    state.value = 'running';
    for (const { key } of work.value) {
      if (isGone.current) return;
      const outcome = await rotate(key, overlap.value);
      work.value = work.value.map((each) => (each.key === key ? { key, outcome } : each));
    }
    state.value = 'done';
  };
  const done = work.value.filter(({ outcome }) => outcome !== undefined).length;
  const secrets = formatLines(work.value);
  return (
    <Dialog title={say.title(keys.length)} {...(state.value === 'asking' && { onClose: () => onClose(false) })}>
      {state.value === 'asking' ? (
        <>
          <p>{texts.keys.rotateText}</p>
          <Choice label={texts.keys.overlap} of={overlap} options={texts.keys.overlaps} />
        </>
      ) : (
        <>
          <progress aria-label={say.progress(done, keys.length)} max={keys.length} value={done} />
          <p role="status">{say.progress(done, keys.length)}</p>
          <p class="box warn">{say.secretText}</p>
          <Table
            label={say.title(keys.length)}
            rows={work.value}
            keyOf={({ key }) => key.id}
            columns={[
              [texts.columns.account, ({ key }) => key.account],
              [texts.keys.id, ({ key }) => <code>{key.id}</code>],
              [texts.keys.secretLabel, ({ outcome }) => <Outcome outcome={outcome} />],
            ]}
          />
        </>
      )}
      <div class="row end">
        {state.value === 'asking' ? (
          <>
            <button onClick={() => onClose(false)}>{texts.cancel}</button>
            <button class={overlap.value === '0s' ? 'danger' : 'primary'} onClick={() => void run()}>
              {texts.keys.rotate}
            </button>
          </>
        ) : (
          <>
            <Copy text={secrets} label={say.copy} />
            <button onClick={() => download('keys.csv', secrets)}>{say.download}</button>
            <button class="primary" disabled={state.value === 'running'} onClick={() => onClose(true)}>
              {texts.done}
            </button>
          </>
        )}
      </div>
    </Dialog>
  );
}

async function rotate({ account, id }: DueKey, overlap: string): Promise<Work['outcome']> {
  let issued: IssuedKey | undefined;
  const params = { path: { account, key: id }, header: { 'Idempotency-Key': crypto.randomUUID() } };
  const refused = await catchRefusal(async () => {
    issued = await ask(api.POST('/api/v1/accounts/{account}/keys/{key}/rotate', { params, body: { overlap } }));
  });
  return issued ?? { refused: refused?.message ?? '' };
}

function Outcome({ outcome }: Pick<Work, 'outcome'>) {
  if (outcome === undefined) return <span class="faint">{texts.loading}</span>;
  if ('refused' in outcome) return <span class="wrong">{outcome.refused}</span>;
  return <code>{outcome.key ?? texts.keys.secretShown}</code>;
}

/** Formats the successors as CSV, one line each. */
function formatLines(work: readonly Work[]): string {
  const lines = work.flatMap(({ key, outcome }) =>
    outcome === undefined || 'refused' in outcome
      ? []
      : [[key.account, key.id, outcome.id, outcome.key ?? ''].join(',')],
  );
  return ['account,replaces,id,key', ...lines, ''].join('\r\n');
}
