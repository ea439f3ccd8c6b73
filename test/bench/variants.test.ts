import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parts, switchedOff, tracingCalls } from '../../bench/variants.ts';

test.each([...parts, tracingCalls])(
  'the code of $name is in its files exactly once, so that a variant can remove it',
  (part) => {
    for (const file of Object.keys(part.changes)) {
      const source = readFileSync(file, 'utf8');
      expect(switchedOff(part, file, source)).not.toBe(source);
      expect(() => switchedOff(part, file, source + source)).toThrow(file);
    }
  },
);
