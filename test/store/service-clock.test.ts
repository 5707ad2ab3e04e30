// The service clock on a real database: what one api writes of itself, and which outages the apis find.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import {
  endServiceClock,
  readOutages,
  settleServiceClock,
  signServiceClock,
} from '../../src/store/upkeep/service-clock.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { openVirtualClock, type VirtualClock } from '../support/virtual-clock.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

let fixture: ProjectFixture;
let clock: VirtualClock;
beforeEach(async () => {
  fixture = await openProjectFixture();
  clock = await openVirtualClock(fixture.databaseUrl);
});
afterEach(async () => {
  await clock?.close();
  await fixture?.close();
});

interface Api {
  apiId: string;
  address: string;
}

const makeApi = (address: string): Api => ({ apiId: newUuid(), address });

/** As an api does each second. Returns the spans that it found. */
async function tick(api: Api, decidedMs = clock.nowMs): Promise<[number, number][]> {
  const signed = await signServiceClock(clock.pool, { apiId: api.apiId, decidedMs, ageMs: 0 });
  if (signed) return [];
  const { outages } = await settleServiceClock(clock.pool, api, () => ({ decidedMs }));
  return outages.map(({ fromMs, toMs }) => [fromMs, toMs]);
}

async function spans(): Promise<[number, number][]> {
  return (await readOutages(clock.pool, 0)).map(({ fromMs, toMs }) => [fromMs, toMs]);
}

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
    for (const { apiId } of apis) expect(await endServiceClock(clock.pool, apiId)).toBe(true);
    const fromMs = clock.nowMs;
    await clock.pass(HOUR_MS);
    const found = await Promise.all([tick(makeApi('a')), tick(makeApi('b')), tick(makeApi('c'))]);
    expect(found.flat()).toEqual([[fromMs, clock.nowMs]]);
    expect(await spans()).toEqual([[fromMs, clock.nowMs]]);
  });

  it('two apis that find the end of the same process at once write one outage', async () => {
    const [dead, one, other] = [makeApi('dead'), makeApi('one'), makeApi('other')];
    for (const api of [dead, one, other]) await tick(api);
    const fromMs = clock.nowMs;
    for (let second = 0; second < 31; second += 1) {
      await clock.pass(SECOND_MS);
      const found = await Promise.all([tick(one), tick(other)]);
      expect(found.flat()).toEqual(second < 30 ? [] : [[fromMs, fromMs + 30 * SECOND_MS]]);
    }
    await clock.pass(MINUTE_MS);
  });
});
