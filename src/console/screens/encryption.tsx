import { useSignal } from '@preact/signals';
import type { Account, EnabledEncryption, Encryption } from '../api.ts';
import type { Credentials } from '../envelope.ts';
import { inFull } from '../dates.ts';
import { mayChange, mayDisable } from '../session.ts';
import { set } from '../route.ts';
import { texts } from '../texts.ts';
import { Badge, When } from '../ui/inline.tsx';
import { Copy, Secret } from '../ui/copy.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Facts } from '../ui/states.tsx';
import { sumUses } from '../ui/use-line.tsx';
import { DisableEncryption, EnableEncryption } from './encryption-dialogs.tsx';
import { Grace } from './grace.tsx';
import { Tester } from './tester.tsx';

const say = texts.encryption;

/** How an account encrypts in each environment, and the tester. */
export function Encryptions({ account, reload }: { account: Account; reload: () => void }) {
  const shown = useSignal<EnabledEncryption | undefined>(undefined);
  const handedOver = useSignal<Credentials | undefined>(undefined);
  const made = (enabled: EnabledEncryption): void => {
    shown.value = enabled;
    if (enabled.key !== undefined && enabled.iv !== undefined) handedOver.value = { key: enabled.key, iv: enabled.iv };
    reload();
  };
  return (
    <section aria-label={texts.pages.encryption}>
      <div class="columns">
        {[account.encryption.test, account.encryption.live].map((encryption) => (
          <InEnvironment
            key={encryption.environment}
            account={account}
            encryption={encryption}
            onMade={made}
            onChanged={reload}
          />
        ))}
      </div>
      <Tester given={handedOver.value} />
      {shown.value !== undefined && <ShownOnce enabled={shown.value} onClose={set(shown, undefined)} />}
    </section>
  );
}

function InEnvironment(props: {
  account: Account;
  encryption: Encryption;
  onMade: (enabled: EnabledEncryption) => void;
  onChanged: () => void;
}) {
  const { account, encryption, onMade, onChanged } = props;
  const asking = useSignal<'enable' | 'disable' | undefined>(undefined);
  const { enabled, previous } = encryption;
  const name = texts.environments[encryption.environment];
  const used = account.keys.filter((key) => key.environment === encryption.environment);
  const use = sumUses(used.map((key) => key.use));
  const dialog = { encryption, onClose: set(asking, undefined) };
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
          disabled={!(enabled ? mayDisable(encryption.environment) : mayChange())}
          onClick={set(asking, enabled ? 'disable' : 'enable')}
        >
          <span class="knob" aria-hidden="true" />
          <span>{enabled ? say.on : say.off}</span>
        </button>
      </div>
      <p>{enabled ? say.onText : say.offText}</p>
      {enabled && (
        <Facts
          facts={[
            [say.made, <When date={encryption.created_at ?? undefined} />],
            [say.encoding, texts.encodings[encryption.encoding]],
          ]}
        />
      )}
      {previous !== null && <Grace encryption={encryption} onDone={onChanged} />}
      {enabled && mayChange() && (
        <div class="row">
          <button onClick={set(asking, 'enable')}>{say.replace}</button>
        </div>
      )}
      {asking.value === 'enable' && <EnableEncryption {...dialog} onDone={onMade} />}
      {asking.value === 'disable' && <DisableEncryption {...dialog} use={use} onDone={onChanged} />}
    </section>
  );
}

/** Shows the key and the IV once. */
function ShownOnce({ enabled, onClose }: { enabled: EnabledEncryption; onClose: () => void }) {
  const { key, iv, fingerprint, environment, account } = enabled;
  return (
    <Dialog title={`${say.secretTitle}: ${account}, ${texts.environments[environment]}`}>
      {key === undefined || iv === undefined ? (
        <p class="box warn">{say.secretShown}</p>
      ) : (
        <>
          <p class="box warn">{say.secretText}</p>
          <Secret label={say.key} value={key} hint={say.keyHint} />
          <Secret label={say.iv} value={iv} hint={say.ivHint} />
          <p>
            {say.fingerprint}: <code>{fingerprint}</code>
          </p>
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
          <Copy
            text={`${say.key}: ${key}\n${say.iv}: ${iv}\n${say.fingerprint}: ${fingerprint}\n`}
            label={say.copyBoth}
          />
        )}
        <button class="primary" onClick={onClose}>
          {texts.done}
        </button>
      </div>
    </Dialog>
  );
}
