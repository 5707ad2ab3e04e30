// The service clock on a real database: what one api writes of itself, and which outages the apis find.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { findDue } from '../../src/store/monitors/due-monitors.ts';
import {
  endServiceClock,
  readOutages,
  settleServiceClock,
  signServiceClock,
} from '../../src/store/upkeep/service-clock.ts';
import { sweepRetention } from '../../src/sweeper/upkeep/sweep-retention.ts';
import { type ClockedFixture, openClockedFixture } from '../support/clocked-fixture.ts';
import { seedMonitor } from '../support/seed.ts';
import { drain, makeParts, makeSweep } from '../support/sweeper-fixture.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

let fixture: ClockedFixture;
let clock: VirtualClock;
beforeEach(async () => {
  fixture = await openClockedFixture();
  clock = fixture.clock;
});
afterEach(() => fixture?.close());

interface Api {
  apiId: string;
  address: string;
}

const makeApi = (address: string): Api => ({ apiId: newUuid(), address });

/** As an api does each second. Returns the spans that it found. */
const end = ({ apiId }: { apiId: string }) => endServiceClock(clock.pool, { apiId, decidedMs: clock.nowMs });

async function tick(api: Api, decidedMs = clock.nowMs): Promise<[number, number][]> {
  const signed = await signServiceClock(clock.pool, { apiId: api.apiId, decidedMs, ageMs: 0 });
  if (signed) return [];
  const { outages } = await settleServiceClock(clock.pool, api, () => ({ decidedMs }));
  return outages.map(({ fromMs, toMs }) => [fromMs, toMs]);
}

async function spans(): Promise<[number, number][]> {
  return (await readOutages(clock.pool, 0)).map(({ fromMs, toMs }) => [fromMs, toMs]);
}

async function running(): Promise<number | null> {
  return (await clock.pool.query('select from service_clock where not ended')).rowCount;
}

const horizon = async () => (await findDue(clock.pool, undefined)).horizonMs;

describe('the service clock', () => {
  it('the service clock begins without an outage', async () => {
    expect(await tick(makeApi('a'))).toEqual([]);
    expect(await spans()).toEqual([]);
  });

  it('a gap of three seconds is no outage, a longer one is, from the moment up to which beats were decided', async () => {
    const api = makeApi('a');
    await tick(api);
    await clock.pass(3 * SECOND_MS);
    expect(await tick(api, clock.nowMs - 500)).toEqual([]);
    await clock.pass(3 * SECOND_MS + 1);
    const span = [clock.nowMs - 3_501, clock.nowMs];
    expect(await tick(api)).toEqual([span]);
    expect(await spans()).toEqual([span]);
  });

  it('after all apis have ended gracefully, a start an hour later finds one outage of that hour', async () => {
    const apis = [makeApi('a'), makeApi('b')];
    for (const api of apis) await tick(api);
    for (const api of apis) expect(await end(api)).toBe(true);
    const fromMs = clock.nowMs;
    await clock.pass(HOUR_MS);
    const found = await Promise.all([tick(makeApi('a')), tick(makeApi('b')), tick(makeApi('c'))]);
    expect(found.flat()).toEqual([[fromMs, clock.nowMs]]);
    expect(await spans()).toEqual([[fromMs, clock.nowMs]]);
  });

  it('an api that refused connections before its end leaves an outage from then on, if no other one lives', async () => {
    const [ending, living] = [makeApi('a'), makeApi('b')];
    await tick(ending);
    const leftMs = clock.nowMs;
    await clock.pass(2 * SECOND_MS);
    await tick(ending, leftMs);
    expect(await horizon()).toBe(leftMs);
    expect(await endServiceClock(clock.pool, { apiId: ending.apiId, decidedMs: leftMs })).toBe(true);
    await clock.pass(2 * SECOND_MS);
    expect(await tick(makeApi('a'))).toEqual([[leftMs, clock.nowMs]]);
    const found = await spans();
    await tick(living);
    await end(living);
    await clock.pass(2 * SECOND_MS);
    await tick(makeApi('c'));
    expect(await spans()).toEqual(found);
  });

  it('when every api has died, they leave one outage, and each one that returns later only that of its delay', async () => {
    for (const order of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      await clock.pool.query('truncate service_clock, service_outages');
      for (const api of [makeApi('a'), makeApi('b')]) await tick(api, clock.nowMs - 100);
      const fromMs = clock.nowMs - 100;
      await clock.pass(HOUR_MS);
      const backMs = clock.nowMs;
      expect(await tick(makeApi(order[0]))).toEqual([[fromMs, backMs]]);
      await clock.pass(2 * SECOND_MS);
      expect(await tick(makeApi(order[1]))).toEqual([[backMs, clock.nowMs]]);
      expect(await running()).toBe(2);
    }
  });

  it('the outage of an api that stands still is seen when another one lives, and its deadlines wait meanwhile', async () => {
    const [stopped, living] = [makeApi('stopped'), makeApi('living')];
    for (const api of [stopped, living]) await tick(api);
    const fromMs = clock.nowMs;
    for (let second = 0; second < 20; second += 1) {
      await clock.pass(SECOND_MS);
      expect(await tick(living)).toEqual([]);
      expect(await horizon()).toBe(fromMs);
    }
    expect(await tick(stopped)).toEqual([[fromMs, clock.nowMs]]);
    expect(await horizon()).toBe(clock.nowMs);
  });

  it('an api that dies leaves an outage until its address accepts beats again, for 30 s at most', async () => {
    for (const awayMs of [SECOND_MS, 40 * SECOND_MS]) {
      await clock.pool.query('truncate service_clock, service_outages');
      const living = makeApi('living');
      for (const api of [makeApi('dead'), living]) await tick(api);
      const fromMs = clock.nowMs;
      for (let passedMs = 0; passedMs < awayMs; passedMs += SECOND_MS) {
        await clock.pass(SECOND_MS);
        await tick(living);
      }
      await tick(makeApi('dead'));
      expect(await spans()).toEqual([[fromMs, fromMs + Math.min(awayMs, 30 * SECOND_MS)]]);
      expect(await running()).toBe(2);
    }
  });

  it('two apis that find the end of the same process at once write one outage', async () => {
    const [dead, one, other] = [makeApi('dead'), makeApi('one'), makeApi('other')];
    for (const api of [dead, one, other]) await tick(api);
    const fromMs = clock.nowMs;
    for (let second = 1; second <= 31; second += 1) {
      await clock.pass(SECOND_MS);
      const found = await Promise.all([tick(one), tick(other)]);
      expect(found.flat()).toEqual(second <= 30 ? [] : [[fromMs, fromMs + 30 * SECOND_MS]]);
    }
    expect(await spans()).toHaveLength(1);
  });

  it('the database is away for ten minutes while two apis live: one outage, whoever comes back first', async () => {
    const apis = [makeApi('a'), makeApi('b')] as const;
    for (const [first, second] of [apis, [apis[1], apis[0]] as const]) {
      await clock.pool.query('truncate service_outages');
      for (const api of apis) await tick(api);
      const fromMs = clock.nowMs;
      await clock.pass(10 * MINUTE_MS);
      const found = await Promise.all([tick(first), tick(second)]);
      expect(found.flat()).toEqual([[fromMs, clock.nowMs]]);
      // The second one has excuses that are not paid: it says so at once, and adds no outage.
      expect(await tick(second, fromMs + 5)).toEqual([]);
      expect(await horizon()).toBe(fromMs + 5);
      expect(await tick(second)).toEqual([]);
      expect(await spans()).toEqual([[fromMs, clock.nowMs]]);
    }
  });

  it('a sign of life whose answer was lost is given again, and the outage is not written twice', async () => {
    const api = makeApi('a');
    await tick(api);
    await clock.pass(MINUTE_MS);
    const settle = () => settleServiceClock(clock.pool, api, ({ nowMs }) => ({ decidedMs: nowMs }));
    expect((await settle()).outages).toHaveLength(1);
    expect((await settle()).outages).toHaveLength(0);
    expect(await spans()).toHaveLength(1);
  });

  it('refusals that could not be remembered are an outage, which is written once while it grows, and beside one that timelines name', async () => {
    const api = makeApi('a');
    await tick(api);
    const lose = (toMs: number) =>
      settleServiceClock(clock.pool, api, ({ nowMs }) => ({
        decidedMs: nowMs,
        lost: { fromMs: nowMs - 900, toMs, reason: 'lost', addresses: ['a'] },
      }));
    await lose(clock.nowMs - 500);
    await lose(clock.nowMs - 500);
    await lose(clock.nowMs - 100);
    expect(await spans()).toEqual([[clock.nowMs - 900, clock.nowMs - 100]]);
    // A timeline names the span up to here.
    await clock.pool.query('update service_outages set told = true');
    await lose(clock.nowMs - 100);
    await lose(clock.nowMs);
    expect(await spans()).toEqual([
      [clock.nowMs - 900, clock.nowMs - 100],
      [clock.nowMs - 900, clock.nowMs],
    ]);
  });

  it('a database clock that was set back takes rows and outages with it, and later outages are found', async () => {
    const apis = [makeApi('a'), makeApi('b')] as const;
    for (const api of apis) await tick(api);
    const startMs = clock.nowMs;
    await clock.pool.query(
      'insert into service_outages (from_ms, to_ms) values ($1, $2), ($3, $4), ($5, $6)',
      [
        ...[startMs - 90_000, startMs - 80_000],
        ...[startMs - 5_000, startMs + HOUR_MS],
        ...[startMs + MINUTE_MS, startMs + 2 * MINUTE_MS],
      ],
    );
    await clock.pass(HOUR_MS);
    for (const api of apis) await tick(api);
    await clock.pass(-HOUR_MS);
    for (const api of apis) expect(await tick(api)).toEqual([]);
    expect(await horizon()).toBe(startMs);
    expect(await spans()).toEqual([
      [startMs - 90_000, startMs - 80_000],
      [startMs - 5_000, startMs],
    ]);
    await clock.pass(10 * SECOND_MS);
    expect(await tick(apis[0])).toEqual([[startMs, clock.nowMs]]);
  });

  it('a beat that waits holds the clock although the database was set back a little', async () => {
    const api = makeApi('a');
    await tick(api);
    await clock.pass(-2 * SECOND_MS);
    const decidedMs = clock.nowMs + 500;
    const signed = await signServiceClock(clock.pool, { apiId: api.apiId, decidedMs, ageMs: 1_500 });
    expect(signed?.nowMs).toBe(clock.nowMs);
    expect(await horizon()).toBe(clock.nowMs - 1_500);
  });

  it('an api that was away does not end its row, so that the time becomes an outage', async () => {
    const api = makeApi('a');
    await tick(api);
    const fromMs = clock.nowMs;
    await clock.pass(MINUTE_MS);
    expect(await end(api)).toBe(false);
    expect(await tick(makeApi('a'))).toEqual([[fromMs, clock.nowMs]]);
  });
});

describe('the horizon', () => {
  it('a sweep opens nothing for a deadline up to which one of two apis has not decided its beats', async () => {
    const apis = [makeApi('a'), makeApi('b')] as const;
    const deadlineMs = clock.nowMs + 10 * SECOND_MS;
    await seedMonitor(clock.pool, fixture.project, {
      live: { anchor_ms: clock.nowMs, deadline_ms: deadlineMs, wake_ms: deadlineMs },
    });
    const countOpened = async () => {
      await drain(makeSweep(clock.pool));
      return (await clock.pool.query('select from incidents')).rowCount;
    };
    for (const api of apis) await tick(api);
    for (let second = 0; second < 20; second += 1) {
      await clock.pass(SECOND_MS);
      await tick(apis[0]);
      await tick(apis[1], Math.min(clock.nowMs, deadlineMs - 1));
      expect(await countOpened()).toBe(0);
    }
    await tick(apis[1], deadlineMs);
    expect(await countOpened()).toBe(1);
  });

  it('after all apis have ended a sweep goes up to the end of the last one', async () => {
    expect(await horizon()).toBeUndefined();
    const apis = [makeApi('a'), makeApi('b')] as const;
    for (const api of apis) await tick(api);
    await end(apis[0]);
    await clock.pass(SECOND_MS);
    await tick(apis[1]);
    expect(await horizon()).toBe(clock.nowMs);
    await end(apis[1]);
    await clock.pass(MINUTE_MS);
    expect(await horizon()).toBe(clock.nowMs - MINUTE_MS);
  });
});

it('rows of apis that ended are deleted after a day, but never the newest one', async () => {
  for (const address of ['a', 'b', 'c']) {
    const api = makeApi(address);
    await tick(api);
    await end(api);
    await clock.pass(SECOND_MS);
  }
  await clock.pass(48 * HOUR_MS);
  const deps = { pool: clock.pool, slowPool: clock.pool, ...makeParts() };
  await drain({ run: () => sweepRetention(deps) });
  expect((await clock.pool.query('select address from service_clock')).rows).toEqual([{ address: 'c' }]);
});
