import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { refusalReasons } from '../../src/errors.ts';

const read = (page: string): string => readFileSync(`docs/operators/${page}`, 'utf8').replaceAll(/\s+/g, ' ');

test('docs/operators/monitor.md names every reason for a refusal that an access log line can give', () => {
  const [, entry = ''] = / - `reason`: (.*?) - `/.exec(read('monitor.md')) ?? [];
  for (const reason of Object.values(refusalReasons).flat()) expect(entry).toContain(`\`${reason}\``);
});

test('docs/operators/alerts.md says what each reason for not opening an envelope points to', () => {
  const [, section = ''] = /### EnvelopeSidecarEnvelopesNotOpened (.*?) ### /.exec(read('alerts.md')) ?? [];
  for (const reason of refusalReasons.decryption_failed) expect(section).toContain(`\`${reason}\``);
});
