import { useSignal } from '@preact/signals';
import { api, ask, type Account } from '../api.ts';
import { tellChanged } from '../notices.ts';
import { goTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Ask } from '../ui/dialog.tsx';
import { TextField } from '../ui/fields.tsx';

const say = texts.accounts;

export function AddAccount({ onClose }: { onClose: () => void }) {
  const id = useSignal('');
  const name = useSignal('');
  return (
    <Ask
      title={say.addTitle}
      submit={say.add}
      ready={id.value !== '' && name.value !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const added = await ask(api.POST('/api/v1/accounts', { body: { id: id.value, name: name.value } }));
        onClose();
        goTo('accounts', added.id);
        tellChanged(say.added(added.id), added);
      }}
    >
      <TextField label={say.idField} hint={say.idHint} of={id} />
      <TextField label={say.nameField} hint={say.nameHint} of={name} />
    </Ask>
  );
}

interface AccountDialogProps {
  readonly account: Account;
  readonly onClose: () => void;
  readonly onDone: (changed: Account) => void;
}

export function RenameAccount({ account, onClose, onDone }: AccountDialogProps) {
  const name = useSignal(account.name);
  return (
    <Ask
      title={texts.account.renameTitle}
      submit={texts.account.rename}
      ready={name.value !== '' && name.value !== account.name}
      onClose={onClose}
      onSubmit={async () => {
        const params = { path: { account: account.id } };
        const changed = await ask(
          api.POST('/api/v1/accounts/{account}/rename', { params, body: { name: name.value } }),
        );
        tellChanged(texts.account.renamed, changed);
        onDone(changed);
      }}
    >
      <TextField label={say.nameField} hint={say.nameHint} of={name} />
    </Ask>
  );
}

export function DeactivateAccount({ account, onClose, onDone }: AccountDialogProps) {
  return (
    <Ask
      title={texts.account.deactivateTitle(account.id)}
      submit={texts.account.deactivate}
      danger
      onClose={onClose}
      onSubmit={async () => {
        const params = { path: { account: account.id } };
        const changed = await ask(api.POST('/api/v1/accounts/{account}/deactivate', { params }));
        tellChanged(texts.account.deactivated, changed);
        onDone(changed);
      }}
    >
      <p>{texts.account.deactivateText}</p>
    </Ask>
  );
}
