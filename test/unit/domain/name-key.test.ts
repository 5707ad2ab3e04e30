// Names of projects that are the same, for the store and for the operator.
import { expect, it } from 'vitest';
import { projectNameKey } from '../../../src/domain/name-key.ts';

it('of projects ignore case, extra spaces and Unicode form', () => {
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

it('of projects tell apart what is not the same', () => {
  const names = ['a b', 'ab', 'a-b', 'ı', 'i', 'ä', 'a'];
  expect(new Set(names.map(projectNameKey)).size).toBe(names.length);
});
