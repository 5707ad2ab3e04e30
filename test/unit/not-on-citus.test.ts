// The list of what a run on Citus leaves out names files and tests that are there.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { NOT_ON_CITUS } from '../support/not-on-citus.ts';

it.each(Object.entries(NOT_ON_CITUS))('%s has the tests that a run on Citus leaves out', (file, reasons) => {
  const text = readFileSync(file, 'utf8');
  if (typeof reasons === 'string') return;
  for (const title of Object.keys(reasons)) expect(text).toContain(title);
});
