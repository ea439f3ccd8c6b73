import { chmodSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { lastUnexpectedEnvelope, UnexpectedEnvelopesFile } from '../../../src/accounts/file/unexpected-envelopes.ts';
import { Folder } from '../../support/folder.ts';

const notes = '.accounts.yaml.unexpected';

function start() {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const path = folder.file('accounts.yaml');
  const failed = vi.fn<(error: unknown) => void>();
  return { folder, path, failed, open: () => new UnexpectedEnvelopesFile(path, failed) };
}

test('the latest envelope of each account and environment is kept, across sidecars', async () => {
  const { path, open, failed } = start();
  const [one, other] = [open(), open()];
  one.unexpected('acme', 'test', 2_000);
  await one.write();
  other.unexpected('acme', 'test', 1_000);
  other.unexpected('acme', 'live', 3_000);
  await other.write();
  expect(lastUnexpectedEnvelope(path, 'acme', 'test')).toBe(2_000);
  expect(lastUnexpectedEnvelope(path, 'acme', 'live')).toBe(3_000);
  expect(lastUnexpectedEnvelope(path, 'globex', 'test')).toBeUndefined();
  expect(failed).not.toHaveBeenCalled();
});

test('the notes have the mode of the accounts file, and no other file is left', async () => {
  const { folder, path, open } = start();
  chmodSync(path, 0o640);
  const recorder = open();
  recorder.unexpected('acme', 'test', 1);
  await recorder.write();
  expect(statSync(folder.file(notes)).mode & 0o777).toBe(0o640);
  expect(readFileSync(folder.file(notes), 'utf8')).toBe('{"acme test":1}');
});

test('a symbolic link in the place of the temporary file is not followed', async () => {
  const { folder, path, open, failed } = start();
  folder.write({ victim: 'precious' });
  chmodSync(folder.file('victim'), 0o600);
  chmodSync(path, 0o640);
  symlinkSync(folder.file('victim'), folder.file(`${notes}.${process.pid}.new`));
  const recorder = open();
  recorder.unexpected('acme', 'test', 1);
  await recorder.write();
  expect(readFileSync(folder.file('victim'), 'utf8')).toBe('precious');
  expect(statSync(folder.file('victim')).mode & 0o777).toBe(0o600);
  expect(lstatSync(folder.file(notes)).isFile()).toBe(true);
  expect(lastUnexpectedEnvelope(path, 'acme', 'test')).toBe(1);
  expect(failed).not.toHaveBeenCalled();
});

test('a failed write is logged once and retried', async () => {
  const { folder, path, open, failed } = start();
  mkdirSync(folder.file(notes));
  const recorder = open();
  recorder.unexpected('acme', 'test', 1);
  await recorder.write();
  await recorder.write();
  expect(failed).toHaveBeenCalledTimes(1);
  rmSync(folder.file(notes), { recursive: true });
  await recorder.write();
  expect(lastUnexpectedEnvelope(path, 'acme', 'test')).toBe(1);
});

test('invalid notes count as none and are replaced', async () => {
  const { folder, path, open, failed } = start();
  folder.write({ [notes]: '{"acme test":' });
  expect(lastUnexpectedEnvelope(path, 'acme', 'test')).toBeUndefined();
  const recorder = open();
  recorder.unexpected('acme', 'test', 1);
  await recorder.write();
  expect(lastUnexpectedEnvelope(path, 'acme', 'test')).toBe(1);
  expect(failed).not.toHaveBeenCalled();
});
