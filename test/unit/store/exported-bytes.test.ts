// The bytes of exported lines, from rows as Postgres gives them.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { json, lines, observationLines } from '../../../src/store/beats/exported-bytes.ts';

const text = observationLines({
  names: ['<s>', '<k>', '<t>'],
  plain: '<plain>\n',
  detailed: ['<d>', '<end>\n'],
});

it.each([
  ['2026-11-23 18:40:34+00', '2026-11-23T18:40:34.000Z'],
  ['2026-11-23 18:40:34.1+00', '2026-11-23T18:40:34.100Z'],
  ['2026-11-23 18:40:34.12+00', '2026-11-23T18:40:34.120Z'],
  ['2026-11-23 18:40:34.123+00', '2026-11-23T18:40:34.123Z'],
  ['2026-11-23 18:40:34.1239+00', '2026-11-23T18:40:34.123Z'],
  ['2026-11-23 18:40:34.999999+00', '2026-11-23T18:40:34.999Z'],
])('the time %s is %s, whatever follows', (time, expected) => {
  const rows = [`1\tsuccess\t${time}`, `2\tfail\t${time}\tdetails`, `3\tlog\t${time}`];
  const line = (rest: string) => `head${rest}\n`;
  expect(text.of([{ head: 'head', text: rows.join('\n'), lines: 3 }]).toString()).toBe(
    [
      line(`<s>1<k>success<t>${expected}<plain>`),
      line(`<s>2<k>fail<t>${expected}<d>details<end>`),
      line(`<s>3<k>log<t>${expected}<plain>`),
    ].join(''),
  );
});

it('lines of several monitors have their heads, and any details', () => {
  const details = fc.string({ unit: 'binary', maxLength: 30 }).filter((one) => one.isWellFormed());
  const row = fc.record({ sequence: fc.nat(), details: fc.option(details, { nil: undefined }) });
  const monitor = fc.record({ head: details, rows: fc.array(row, { minLength: 1, maxLength: 5 }) });
  const asJson = observationLines({
    ...{ names: ['<s>', '<k>', '<t>'], plain: '<plain>', detailed: ['<d>', '<end>'], read: json },
  });
  fc.assert(
    fc.property(fc.array(monitor, { maxLength: 4 }), (monitors) => {
      const given = monitors.map(({ head, rows }) => ({
        head,
        text: rows
          .map((one) => {
            const parts = [one.sequence, 'success', '2026-11-23 18:40:34+00'];
            return [...parts, ...(one.details === undefined ? [] : [JSON.stringify(one.details)])].join('\t');
          })
          .join('\n'),
        lines: rows.length,
      }));
      const expected = monitors.flatMap(({ head, rows }) =>
        rows.map(
          (one) =>
            `${head}<s>${one.sequence}<k>success<t>2026-11-23T18:40:34.000Z${one.details === undefined ? '<plain>' : `<d>${one.details}<end>`}`,
        ),
      );
      expect(asJson.of(given).toString()).toBe(expected.join(''));
    }),
  );
});

it('lines that are ready get their heads and ends', () => {
  const monitors = [
    { head: 'a', text: '1\n2', lines: 2 },
    { head: 'b$&', text: '3\n4', lines: 2 },
  ];
  expect(lines('}\n').of(monitors).toString()).toBe('a1}\na2}\nb$&3}\nb$&4}\n');
});
