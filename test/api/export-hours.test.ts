// The hours of an export beside its observations: what is kept is in one form or the other, whatever goes meanwhile.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ExportOrder } from '../../src/service/tenancy/export-pages.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { ofType, recordsOf } from '../support/export-reader.ts';
import {
  beginSumsAt,
  DAY_MS,
  daysAgo,
  HOUR_MS,
  insertBeats,
  makePartition,
  sumUpUntil,
  waitOutDay,
} from '../support/past-beats.ts';
import { seedMonitors } from '../support/seed.ts';
import { orderOf, readAll, streamOf, withHome } from './export-order.ts';

const DAYS = 34;
/** Of each day, in hours. */
const BEATS_OF_DAY = [3, 15, 15.5];
/** The moments of all beats. */
let beats: number[];
let fixture: ProjectFixture;
/** The partition of the oldest day whose observations are kept. */
let oldestDay: string;

beforeAll(async () => {
  await waitOutDay();
  fixture = await openProjectFixture();
  const { pool, project } = fixture;
  for (let day = DAYS; day > 30; day -= 1) await makePartition(pool, daysAgo(day));
  oldestDay = await makePartition(pool, daysAgo(30));
  await beginSumsAt(pool, daysAgo(DAYS));
  beats = Array.from({ length: DAYS }, (_, place) => daysAgo(DAYS - place)).flatMap((day) =>
    BEATS_OF_DAY.map((hour) => day + hour * HOUR_MS),
  );
  const live = { last_sequence: beats.length };
  for (const monitor of await seedMonitors(pool, project, 3, { live })) {
    const measurements = { rows: 1 };
    await insertBeats(
      pool,
      monitor,
      beats.map((atMs) => ({ atMs, measurements })),
    );
  }
  await sumUpUntil(pool, daysAgo(0));
});
afterAll(() => fixture?.close());

/** Of each monitor: the beats that are neither an observation nor in an hour of the export, and the hours that say both. */
function formsOf(text: string): { missing: number[]; inBoth: number[] }[] {
  const records = recordsOf(text);
  return ofType(records, 'monitor').map(({ monitorId }) => {
    const observed = ofType(records, 'observation')
      .filter((one) => one.monitorId === monitorId)
      .map(({ receivedAt }) => Date.parse(receivedAt));
    const hours = ofType(records, 'observation_bucket')
      .filter((one) => one.monitorId === monitorId && one.measurement === 'rows')
      .map(({ startAt }) => Date.parse(startAt));
    expect([new Set(observed).size, new Set(hours).size]).toEqual([observed.length, hours.length]);
    const hourOf = (at: number) => at - (at % HOUR_MS);
    return {
      missing: beats.filter((at) => !observed.includes(at) && !hours.includes(hourOf(at))),
      inBoth: hours.filter((hour) => observed.some((at) => hourOf(at) === hour)),
    };
  });
}
const whole = { missing: [], inBoth: [] };

it.each([
  ['at an hour', 20, []],
  ['within an hour', 19, [15]],
])('observations beyond the number that the plan keeps, cut %s, are in hours', async (_, kept, shared) => {
  const order = await orderOf(fixture);
  const plan = { ...order.plan, storedObservations: kept };
  const forms = formsOf(await readAll(streamOf(fixture, { ...order, plan })));
  const inBoth = shared.map((hour) => daysAgo(7) + hour * HOUR_MS);
  expect(forms).toEqual([whole, whole, whole].map((one) => ({ ...one, inBoth })));
});

it('an export that goes on when days of its observations are not kept any more has their hours', async () => {
  const order = await orderOf(fixture);
  const later: ExportOrder = {
    ...withHome(order, { keptFromMs: daysAgo(27) }),
    plan: { ...order.plan, observationRetentionSeconds: (27 * DAY_MS) / 1_000 },
  };
  const lines = (await readAll(streamOf(fixture, order, { most: 40 }))).split('\n');
  const breaks = lines.flatMap((line, place) => (line.includes('"checkpoint"') ? [place] : []));
  expect(breaks.length).toBeGreaterThan(5);
  for (const place of breaks) {
    const { cursor } = JSON.parse(lines[place] ?? '');
    const first = lines.slice(0, place + 1).join('\n');
    const forms = formsOf(`${first}\n${await readAll(streamOf(fixture, later, { cursor }))}`);
    expect(forms.map(({ missing }) => missing)).toEqual([[], [], []]);
  }
});

it('an export whose oldest day is dropped before it is read has that day in hours, and no beat twice', async () => {
  const { pool } = fixture;
  const stream = streamOf(fixture, await orderOf(fixture));
  const first = String((await stream.next()).value);
  await pool.query(`alter table observations detach partition ${oldestDay}; drop table ${oldestDay}`);
  expect(formsOf(first + (await readAll(stream)))).toEqual([whole, whole, whole]);
});
