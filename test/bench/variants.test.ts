import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parts, switchedOff, tracingCalls } from '../../bench/variants.ts';

test.each([...parts, tracingCalls])('the $name can be switched off: its code is in its files exactly once', (part) => {
  for (const file of Object.keys(part.changes)) {
    const source = readFileSync(file, 'utf8');
    expect(switchedOff(part, file, source)).not.toBe(source);
    expect(() => switchedOff(part, file, source + source)).toThrow(file);
  }
});
