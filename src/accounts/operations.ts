import { AccountsError } from './accounts-error.ts';
import { environmentNames, type EnvironmentName, type KeyKind } from './api-key.ts';
import * as changes from './changes.ts';
import * as keyChanges from './key-changes.ts';
import { rfc3339 } from '../input/value-types.ts';
import type {
  AppendedEvent,
  AuditAction,
  AuditEvent,
  Decision,
  Hints,
  IdempotencyKey,
  Store,
  StoredAccount,
} from './store.ts';
import { repeated, pickSource, type ChangeOutcome } from './made.ts';
import { Queries } from './queries.ts';
import type { Vault } from './vault.ts';
import { viewAccount, viewEncryption, viewKey } from './views.ts';
import type { AccountView, EnabledView, EncryptionView, IssuedKeyView, KeyView, Viewing } from './views.ts';
import type { EpochMs } from '../times.ts';

/** The dependencies of operations. */
export interface OperationsOptions {
  readonly store: Store;
  /** A vault, or a function that is called for each change that needs the master key, because a KMS may have to unwrap that key. */
  readonly vault: Vault | (() => Promise<Vault>);
  readonly clock: () => EpochMs;
  /** Called with each event that was added to the trail. */
  readonly audit: (event: AppendedEvent) => void;
  /** Maximum lifetime of a new key, in milliseconds. Undefined: no limit. */
  readonly maxKeyAge?: number | undefined;
}

/** Changes that take something away from an account and are therefore urgent; see `Hints`. */
const urgentActions: ReadonlySet<AuditAction> = new Set([
  'account_deactivated',
  'key_revoked',
  'encryption_disabled',
  'grace_ended',
]);

/** A request for a change: who asks for the change, and under what conditions. */
export interface ChangeRequest {
  /** As in `AuditEvent`. */
  readonly actor: string;
  /** Whether the actor may change only one account. */
  readonly ofAccount?: boolean;
  readonly origin?: string | undefined;
  readonly requestId?: string | undefined;
  readonly idempotencyKey?: IdempotencyKey | undefined;
  /** Called before the change is decided, and again before it is written. @throws if the change may no longer be made */
  readonly check?: (() => void) | undefined;
  /** Whether the actor may allow an account that encrypts to send plaintext in live for a limited time. Default: true. */
  readonly mayAcceptPlaintextInLive?: boolean;
}

export interface KeyOptions {
  readonly environment: EnvironmentName;
  readonly kind: KeyKind;
  /** Lifetime in milliseconds; undefined: the longest allowed. */
  readonly lifetime: number | undefined;
  readonly name?: string | undefined;
}

/** The operations on accounts, for both the command line and the operators' API. A refused operation throws an `AccountsError`. */
export class Operations extends Queries {
  readonly #vault: () => Promise<Vault>;
  readonly #audit: (event: AppendedEvent) => void;
  readonly #maxKeyAge: number | undefined;

  constructor({ store, vault, clock, audit, maxKeyAge }: OperationsOptions) {
    super(store, clock);
    this.#vault = typeof vault === 'function' ? vault : async () => vault;
    this.#audit = audit;
    this.#maxKeyAge = maxKeyAge;
  }

  async add(id: string, name: string, request: ChangeRequest): Promise<AccountView> {
    return this.#change(id, request, 'account_added', (found, viewing) => {
      const account = changes.newAccount(found, id, name);
      return { account, view: viewAccount(account, viewing), details: { name } };
    });
  }

  async rename(id: string, name: string, request: ChangeRequest): Promise<AccountView> {
    return this.#change(id, request, 'account_renamed', (found, viewing) => {
      const before = changes.requireAccount(found, id);
      const account = { ...before, name };
      const changed = before.name === name ? undefined : account;
      return { account: changed, view: viewAccount(account, viewing), details: { name } };
    });
  }

  /** Activates or deactivates an account. If the account is already in that state, nothing is changed. */
  async setActive(id: string, active: boolean, request: ChangeRequest): Promise<AccountView> {
    return this.#change(id, request, active ? 'account_activated' : 'account_deactivated', (found, viewing) => {
      const before = changes.requireAccount(found, id);
      const account = { ...before, active };
      const changed = before.active === active ? undefined : account;
      return { account: changed, view: viewAccount(account, viewing), details: {} };
    });
  }

  /** Removes an account, its keys and its credentials. Its events stay in the trail. */
  async remove(id: string, request: ChangeRequest): Promise<AccountView> {
    return this.#change(id, request, 'account_removed', (found, viewing) => {
      const before = changes.requireAccount(found, id);
      changes.refuseInUse(before, viewing.now);
      const view = viewAccount(before, viewing);
      return { account: undefined, removed: true, view, details: { name: before.name } };
    });
  }

  async issueKey(id: string, options: KeyOptions, request: ChangeRequest): Promise<IssuedKeyView> {
    return this.#change(id, request, 'key_issued', (found, viewing) => {
      const { environment, kind, lifetime, name } = options;
      const expiresAt = keyChanges.computeExpiry(lifetime, this.#maxKeyAge, viewing.now);
      const wanted = { environment, kind, expiresAt, name };
      const { account, key, secret } = keyChanges.issueKey(changes.requireAccount(found, id), wanted, viewing.now);
      const view = { ...viewKey(id, key, viewing), secret_shown: true };
      return {
        account,
        view,
        secret: { key: secret },
        details: { key: key.id, environment, kind, ...(name !== undefined && { name }) },
      };
    });
  }

  /** @param overlap how long the old key stays valid, in milliseconds */
  async rotateKey(id: string, keyId: string, overlap: number, request: ChangeRequest): Promise<IssuedKeyView> {
    return this.#change(
      id,
      request,
      'key_rotated',
      (found, viewing) => {
        const before = changes.requireAccount(found, id);
        const { account, key, secret, oldEndsAt } = keyChanges.rotateKey(
          before,
          keyId,
          overlap,
          viewing.now,
          this.#maxKeyAge,
        );
        const replaces = { id: keyId, expires_at: rfc3339(oldEndsAt) };
        const view = { ...viewKey(id, key, viewing), replaces, secret_shown: true };
        const { environment } = view;
        const details = { key: key.id, replaces: keyId, environment, replaced_expires_at: replaces.expires_at };
        return { account, view, secret: { key: secret }, details };
      },
      { key: keyId },
    );
  }

  async revokeKey(id: string, keyId: string, request: ChangeRequest): Promise<KeyView> {
    return this.#change(
      id,
      request,
      'key_revoked',
      (found, viewing) => {
        const account = keyChanges.revokeKey(changes.requireAccount(found, id), keyId, viewing.now);
        const view = viewKey(id, keyChanges.requireKey(account, keyId), viewing);
        const { environment, last_used_at: used = null } = view;
        return { account, view, details: { key: keyId, environment, ...(used !== null && { last_used_at: used }) } };
      },
      { key: keyId },
    );
  }

  async enableEncryption(
    id: string,
    environment: EnvironmentName,
    options: changes.EnableOptions,
    request: ChangeRequest,
  ): Promise<EnabledView> {
    const vault = await this.#vault();
    return this.#change(
      id,
      request,
      'encryption_enabled',
      (found, viewing) => {
        const before = changes.requireAccount(found, id);
        const made = changes.enableEncryption(before, environment, options, viewing.now, vault);
        const { account, credentials, fingerprint } = made;
        const view = { ...viewEncryption(account, environment, viewing), fingerprint, secret_shown: true };
        const details = {
          environment,
          replaced: before.encryption[environment]?.enabled === true,
          ...(view.previous !== null && { grace_until: view.previous.until }),
        };
        return { account, view, secret: credentials, details };
      },
      // Replacing credentials is urgent, because the old ones may have leaked. A replacement that a token of the account asks for is not
      // urgent, because an account may have any number of tokens and each urgent change makes other changes start again.
      { urgent: options.replace && request.ofAccount !== true },
    );
  }

  /** @param grace how long envelopes are still accepted, in milliseconds; undefined: they are refused at once */
  async disableEncryption(
    id: string,
    environment: EnvironmentName,
    grace: number | undefined,
    request: ChangeRequest,
  ): Promise<EncryptionView> {
    return this.#change(id, request, 'encryption_disabled', (found, viewing) => {
      const account = changes.disableEncryption(changes.requireAccount(found, id), environment, grace, viewing.now);
      const view = viewEncryption(account, environment, viewing);
      const details = { environment, ...(view.previous !== null && { grace_until: view.previous.until }) };
      return { account, view, details };
    });
  }

  /** @param until the new end of a running grace period; undefined: it ends now */
  async changeGrace(
    id: string,
    environment: EnvironmentName,
    until: EpochMs | undefined,
    request: ChangeRequest,
  ): Promise<EncryptionView> {
    const action = until === undefined ? 'grace_ended' : 'grace_changed';
    return this.#change(id, request, action, (found, viewing) => {
      const account = changes.changeGrace(changes.requireAccount(found, id), environment, until, viewing.now);
      const view = viewEncryption(account, environment, viewing);
      const details = { environment, ...(until !== undefined && { grace_until: rfc3339(until) }) };
      return { account, view, details };
    });
  }

  /**
   * Wraps credentials with a different master key, in each environment for which that key is configured. Credentials already wrapped with
   * it stay unchanged, so that the operation can be repeated. Returns the number of changed accounts.
   *
   * @throws AccountsError `master_key_not_configured` if that key is not configured anywhere, so sidecars could not unwrap the result
   */
  async rekey(to: Vault, request: ChangeRequest): Promise<number> {
    const vault = await this.#vault();
    const environments = environmentNames.filter((environment) => vault.holds(to, environment) !== 'none');
    if (environments.length === 0) {
      throw new AccountsError(
        'master_key_not_configured',
        'the new master key is not configured: put it on a second line of accounts.masterKey, wait until all sidecars have ' +
          'loaded it, move it to the first line, wait again, run this command once more, and remove the old key',
      );
    }
    const { now } = this.viewing();
    const [kcv = ''] = environments.flatMap((environment) => to.checkValues(environment));
    const configured = new Set(environments.flatMap((environment) => vault.checkValues(environment)));
    configured.delete(kcv);
    const details = { kcv, replaces_kcv: [...configured].join(' ') };
    const action = 'master_key_changed';
    const event: AuditEvent = { ...pickSource(request), at: now, action, account: undefined, details };
    const rewrap = (account: StoredAccount): StoredAccount => changes.rewrap(account, vault, to, environments);
    let count = 0;
    for await (const { accounts, appended } of this.store.changeAll(rewrap, event)) {
      appended.forEach(this.#audit);
      count += accounts;
    }
    return count;
  }

  /** Adds an event to the trail without changing an account. */
  async record(action: AuditAction, details: AuditEvent['details'], request: ChangeRequest): Promise<void> {
    const { now } = this.viewing();
    const event: AuditEvent = { ...pickSource(request), at: now, action, account: undefined, details };
    const recorded = await this.store.change([], () => ({ accounts: [], events: [event], result: undefined }));
    if (recorded.outcome === 'changed') recorded.appended.forEach(this.#audit);
  }

  async #change<View extends object, Secret extends object = object>(
    id: string,
    request: ChangeRequest,
    action: AuditAction,
    decide: (found: StoredAccount | undefined, viewing: Viewing) => ChangeOutcome<View, Secret>,
    { urgent = urgentActions.has(action), key }: Hints = {},
  ): Promise<View & Secret> {
    const viewing = this.viewing();
    const changed = await this.store.change(
      [id],
      (existing): Decision<View & Secret> => {
        request.check?.();
        const before = existing.get(id);
        const { account, removed, view, secret, details } = decide(before, viewing);
        if (request.mayAcceptPlaintextInLive === false && account !== undefined)
          changes.refusePlaintextInLive(before, account);
        const event: AuditEvent = { ...pickSource(request), at: viewing.now, action, account: id, details };
        const events = account === undefined && removed === undefined ? [] : [event];
        const made = { accounts: account === undefined ? [] : [account], removed: removed ? [id] : [], events };
        const receipt = JSON.stringify(view);
        return { ...made, result: { ...view, ...secret } as View & Secret, receipt, check: request.check };
      },
      request.idempotencyKey,
      { urgent, key, ofAccount: request.ofAccount },
    );
    if (changed.outcome === 'repeated') return repeated(JSON.parse(changed.receipt) as View & Secret);
    changed.appended.forEach(this.#audit);
    return changed.result;
  }
}
