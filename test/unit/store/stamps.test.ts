// Who may write live rows, by the text of the sources: the status feed finds no change that is not stamped and recorded.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const SOURCES = new URL('../../../src/', import.meta.url);
const texts = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name, text: readFileSync(new URL(name, SOURCES), 'utf8') }));
const filesWith = (pattern: RegExp) =>
  texts.flatMap(({ name, text }) => (pattern.test(text) ? [name] : [])).sort();

/** An assignment; a comparison names its table. */
const STAMP = /(?<!\.)\bchanged_xid\s*=/;
const BEATS = 'store/beats/beats.ts';
const LIVE = 'store/monitors/live.ts';
const INSERT = 'store/monitors/monitors.ts';

it('live rows are stamped in two files, as the transaction that changes them', () => {
  expect(filesWith(STAMP)).toEqual([BEATS, LIVE]);
  for (const { name, text } of texts) {
    const stamps = text.match(new RegExp(`${STAMP.source}.*`, 'g')) ?? [];
    for (const stamp of stamps) expect(stamp, name).toMatch(/^changed_xid = pg_current_xact_id\(\)/);
  }
});

it('whoever stamps a live row, or inserts one, which has a stamp by default, also records the change', () => {
  expect(filesWith(/insert into monitor_live\b/)).toEqual([INSERT]);
  expect(filesWith(/recordChanges\(/)).toEqual([BEATS, 'store/monitors/live-changes.ts', LIVE, INSERT]);
  for (const name of [BEATS, LIVE, INSERT]) {
    const { text = '' } = texts.find((file) => file.name === name) ?? {};
    const written = text.match(/changed_xid = |insert into monitor_live\b/g) ?? [];
    expect(text.match(/recordChanges\(/g), name).toHaveLength(written.length);
  }
});

it('what updates live rows without a stamp is named here: nothing of it is shown before a stamp follows', () => {
  const updates = filesWith(/update monitor_live\b/);
  expect(updates.filter((name) => name !== BEATS && name !== LIVE)).toEqual([
    'store/beats/excuses.ts', // a sweeper looks at the deadline then, and stamps what it changes
    'store/monitors/due-monitors.ts', // the wake alone
    'store/monitors/held-monitors.ts', // when a sweeper looks, which stamps what it changes
  ]);
});
