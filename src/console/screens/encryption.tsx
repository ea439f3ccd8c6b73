import { useSignal } from '@preact/signals';
import type { EnabledEncryption, EnvironmentName } from '../api.ts';
import type { Credentials } from '../envelope.ts';
import { inFull } from '../dates.ts';
import { mayChange } from '../session.ts';
import { set } from '../set.ts';
import { texts } from '../texts.ts';
import { Badge } from '../ui/badge.tsx';
import { Copy, Secret } from '../ui/copy.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { When } from '../ui/when.tsx';
import { DisableEncryption, EnableEncryption } from './encryption-dialogs.tsx';
import { Grace } from './grace.tsx';
import type { AccountTab } from './account-tab.ts';
import { Tester } from './tester.tsx';

const say = texts.encryption;

/** How an account encrypts in each environment, with the tester. */
export function Encryptions({ account, loaded }: AccountTab) {
  const shown = useSignal<EnabledEncryption | undefined>(undefined);
  const handedOver = useSignal<Credentials | undefined>(undefined);
  const made = (enabled: EnabledEncryption): void => {
    shown.value = enabled;
    if (enabled.key !== undefined && enabled.iv !== undefined) handedOver.value = { key: enabled.key, iv: enabled.iv };
    void loaded.reload();
  };
  return (
    <section aria-label={texts.pages.encryption}>
      <div class="columns">
        {(['test', 'live'] as const).map((environment) => (
          <InEnvironment key={environment} account={account} loaded={loaded} environment={environment} onMade={made} />
        ))}
      </div>
      <Tester given={handedOver.value} />
      {shown.value !== undefined && <ShownOnce enabled={shown.value} onClose={set(shown, undefined)} />}
    </section>
  );
}

function InEnvironment(
  props: AccountTab & { environment: EnvironmentName; onMade: (enabled: EnabledEncryption) => void },
) {
  const { account, loaded, environment, onMade } = props;
  const asking = useSignal<'enable' | 'replace' | 'disable' | undefined>(undefined);
  const encryption = account.encryption[environment];
  const { enabled, previous } = encryption;
  const name = texts.environments[environment];
  const ask = (what: typeof asking.value) => (): void => {
    asking.value = what;
  };
  const close = ask(undefined);
  const made = (enabled: EnabledEncryption): void => {
    close();
    onMade(enabled);
  };
  const changed = (): void => {
    close();
    void loaded.reload();
  };
  return (
    <section class="card" aria-label={name}>
      <div class="row between">
        <h2>{name}</h2>
        <button
          type="button"
          role="switch"
          class="switch"
          aria-checked={enabled}
          aria-label={say.switch(name)}
          disabled={!mayChange()}
          onClick={ask(enabled ? 'disable' : 'enable')}
        >
          <span class="knob" aria-hidden="true" />
          <span>{enabled ? say.on : say.off}</span>
        </button>
      </div>
      <p>{enabled ? say.onText : say.offText}</p>
      {enabled && (
        <dl class="facts">
          <dt>{say.made}</dt>
          <dd>
            <When date={encryption.created_at} never={texts.notRecorded} />
          </dd>
          <dt>{say.encoding}</dt>
          <dd>{texts.encodings[encryption.encoding]}</dd>
        </dl>
      )}
      {previous !== null && <Grace encryption={encryption} onChanged={changed} />}
      {enabled && mayChange() && (
        <div class="row">
          <button onClick={ask('replace')}>{say.replace}</button>
        </div>
      )}
      {(asking.value === 'enable' || asking.value === 'replace') && (
        <EnableEncryption encryption={encryption} onClose={close} onDone={made} />
      )}
      {asking.value === 'disable' && <DisableEncryption encryption={encryption} onClose={close} onDone={changed} />}
    </section>
  );
}

/** Shows key and IV once. */
function ShownOnce({ enabled, onClose }: { enabled: EnabledEncryption; onClose: () => void }) {
  const { key, iv, environment, account } = enabled;
  return (
    <Dialog title={`${say.secretTitle}: ${account}, ${texts.environments[environment]}`}>
      {key === undefined || iv === undefined ? (
        <p class="box warn">{say.secretShown}</p>
      ) : (
        <>
          <p class="box warn">{say.secretText}</p>
          <Secret label={say.key} value={key} hint={say.keyHint} />
          <Secret label={say.iv} value={iv} hint={say.ivHint} />
          <p class="hint">{say.tryThem}</p>
        </>
      )}
      {enabled.previous !== null && (
        <p>
          <Badge tone="warn">{say.grace}</Badge> {say.accepts[enabled.previous.accepts]}{' '}
          {say.until(inFull(enabled.previous.until))}.
        </p>
      )}
      <div class="row end">
        {key !== undefined && iv !== undefined && (
          <Copy text={`${say.key}: ${key}\n${say.iv}: ${iv}\n`} label={say.copyBoth} />
        )}
        <button class="primary" onClick={onClose}>
          {texts.done}
        </button>
      </div>
    </Dialog>
  );
}
