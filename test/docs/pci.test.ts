import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runCommand } from '../support/cli.ts';

const page = readFileSync('docs/pci.md', 'utf8');
const metrics = readFileSync('docs/metrics.md', 'utf8');
// An item of the list may continue on the next line.
const evidence = [...page.matchAll(/^- Evidence: (.*(?:\n {2}.*)*)/gm)].flatMap(([, text = '']) =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, item = '']) => item),
);

test('every requirement of docs/pci.md has evidence', () => {
  const requirements = page.match(/^- Sidecar: /gm) ?? [];
  expect(requirements.length).toBeGreaterThan(10);
  expect(page.match(/^- You: /gm)).toHaveLength(requirements.length);
  expect(page.match(/^- Evidence: `/gm)).toHaveLength(requirements.length);
});

test.each([...new Set(evidence)])('the evidence %s exists', async (item) => {
  if (item.startsWith('sidecar ')) {
    const [, ...args] = item.split(' ');
    expect(await runCommand([...args, '--help'])).toMatchObject({ code: 0 });
  } else if (item.startsWith('envelope_sidecar_')) {
    expect(metrics).toContain(`### \`${item}\`\n`);
  } else {
    expect(existsSync(item)).toBe(true);
  }
});
