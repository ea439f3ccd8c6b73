import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { formatPath, type MemberPath } from '../input/member-path.ts';
import type { YamlFile } from '../yaml/yaml-file.ts';

/** Members with operators' tokens, master keys, the audit key or the password of the database. */
const secretMember =
  /^(?:operators\.token|operators\.tokens\[\d+\]\.token|accounts\.(?:postgres\.)?masterKey(?:\.(?:test|live))?|accounts\.postgres\.url|audit\.key)$/;

const masterKeyMember = /\.masterKey\b/;

/** Members with private keys, written as the path of a file with the PEM text, or as that text. */
const privateKeyMember = /^(?:listen|operators)\.tls\.key$|^environments\.(?:test|live)\.upstream\.key$/;

/** The mode bit that lets users other than the owner and the group read a file. */
const othersRead = 0o004;

/**
 * Warns of secrets in files that every user of the machine can read. Files that only their group can read are accepted, because Kubernetes
 * mounts Secrets for a group.
 */
export function warnOfReadableSecrets(file: YamlFile, hasKms: boolean): void {
  for (const { path, written } of filesIn(file.value, [])) {
    const member = formatPath(path);
    // If there is a KMS, the file contains only wrapped master keys.
    if (hasKms && masterKeyMember.test(member)) continue;
    const isSecret = secretMember.test(member) || privateKeyMember.test(member);
    if (isSecret && isReadableByOthers(resolve(file.directory, written))) {
      file.warn(path, 'every user of this machine can read the file: use mode 0600, or 0640');
    }
  }
}

/** Finds the values of the form `{ file: path }`, and the paths of private keys. */
function* filesIn(
  value: unknown,
  path: MemberPath,
): Generator<{ readonly path: MemberPath; readonly written: string }> {
  const isPath = typeof value === 'string' && !/^-----BEGIN|^\$\{/.test(value);
  if (isPath && privateKeyMember.test(formatPath(path))) yield { path, written: value };
  if (typeof value !== 'object' || value === null) return;
  const { file: written } = value as { readonly file?: unknown };
  if (typeof written === 'string') yield { path, written };
  for (const [name, member] of Object.entries(value)) {
    yield* filesIn(member, [...path, Array.isArray(value) ? Number(name) : name]);
  }
}

function isReadableByOthers(path: string): boolean {
  try {
    return (statSync(path).mode & othersRead) !== 0;
  } catch {
    // The file was replaced after it was read. The reload will see the new file.
    return false;
  }
}
