import { useSignal } from '@preact/signals';
import { api, ask, type Account } from '../api.ts';
import { goTo } from '../route.ts';
import { texts } from '../texts.ts';
import { Ask } from '../ui/dialog.tsx';
import { TextField } from '../ui/fields.tsx';
import { Guard, isConfirmed } from '../ui/guard.tsx';
import { sumUses } from '../ui/use-line.tsx';

const say = texts.accounts;

export function AddAccount({ onClose }: { onClose: () => void }) {
  const id = useSignal('');
  const name = useSignal('');
  return (
    <Ask
      title={say.addTitle}
      submit={say.add}
      ready={id.value !== '' && name.value !== ''}
      onSubmit={() => ask(api.POST('/api/v1/accounts', { body: { id: id.value, name: name.value } }))}
      notice={say.added(id.value)}
      onDone={(added) => goTo('accounts', added.id)}
      onClose={onClose}
    >
      <TextField label={say.idField} hint={say.idHint} name="id" of={id} />
      <TextField label={say.name} hint={say.nameHint} name="name" of={name} />
    </Ask>
  );
}

interface AccountDialogProps {
  readonly account: Account;
  readonly onClose: () => void;
  /** Called after the change, once the dialog is closed. */
  readonly onDone: () => void;
}

export function RenameAccount({ account, ...handlers }: AccountDialogProps) {
  const name = useSignal(account.name);
  const params = { path: { account: account.id } };
  return (
    <Ask
      title={texts.account.renameTitle}
      submit={texts.account.rename}
      ready={name.value !== '' && name.value !== account.name}
      onSubmit={() => ask(api.POST('/api/v1/accounts/{account}/rename', { params, body: { name: name.value } }))}
      notice={texts.account.renamed}
      {...handlers}
    >
      <TextField label={say.name} hint={say.nameHint} name="name" of={name} />
    </Ask>
  );
}

export function DeactivateAccount({ account, ...handlers }: AccountDialogProps) {
  const params = { path: { account: account.id } };
  const typed = useSignal('');
  const live = account.keys.filter(({ environment, state }) => environment === 'live' && state === 'valid');
  const guard = {
    use: sumUses((live.length > 0 ? live : account.keys).map(({ use }) => use)),
    id: live.length > 0 ? account.id : undefined,
    typed,
  };
  return (
    <Ask
      title={texts.account.deactivateTitle(account.id)}
      submit={texts.account.deactivate}
      danger
      ready={isConfirmed(guard)}
      onSubmit={() => ask(api.POST('/api/v1/accounts/{account}/deactivate', { params }))}
      notice={texts.account.deactivated}
      {...handlers}
    >
      <p>{texts.account.deactivateText}</p>
      <Guard {...guard} />
    </Ask>
  );
}
