// Which project names are the same, for the store and for the operator.
import { expect, it } from 'vitest';
import { projectNameKey } from '../../../src/domain/name-key.ts';

it('project names that differ only in case, extra spaces or Unicode form have the same key', () => {
  const same = [
    ['Night  Jobs ', 'night\u00a0jobs'],
    ['Straße', 'STRASSE', 'Stra\u1e9ee', 'strasse'],
    ['ΟΔΟΣ', 'οδος', 'οδοσ'],
    ['ﬁnance', 'FINANCE'],
    ['Ärger', 'A\u0308RGER'],
    ['\u01f0', 'J\u030c'],
  ];
  const keys = same.map((names) => new Set(names.map(projectNameKey)));
  expect(keys.map((key) => key.size)).toEqual(same.map(() => 1));
  expect(new Set(keys.flatMap((key) => [...key])).size).toBe(same.length);
});

it('project names that differ otherwise have different keys', () => {
  const names = ['a b', 'ab', 'a-b', 'ı', 'i', 'ä', 'a'];
  expect(new Set(names.map(projectNameKey)).size).toBe(names.length);
});
