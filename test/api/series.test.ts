// Series over HTTP: fields, bounds, errors, and the newest beat in them.
// Holds: readSeries.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { beginSumsAt, DAY_MS, daysAgo, insertBeats, sumUpUntil } from '../support/past-beats.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

async function make() {
  const { body } = await api.manage.expectSuccess('createMonitor', {
    body: { name: 'Job', intervalSeconds: 300 },
  });
  const { rows } = await api.pool.query<{ monitor_key: string }>(
    'select monitor_key from monitors where project_id = $1 and monitor_id = $2',
    [api.projectId, body.monitorId],
  );
  const ref = { projectId: api.projectId, monitorKey: rows[0]?.monitor_key ?? '' };
  return { params: { monitorId: body.monitorId }, publishUrl: body.publishUrl, ref };
}
const beat = (publishUrl: string | undefined, measurements: Record<string, number>) =>
  fetch(`${api.url}${new URL(publishUrl ?? '').pathname}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ measurements }),
  });

const iso = (ms: number) => new Date(ms).toISOString();
const yesterday = (minutes: number) => iso(daysAgo(1) + minutes * 60_000);
const range = { since: yesterday(0), until: yesterday(60) };

describe('a series', () => {
  it('has count, minimum, maximum and mean of each bucket, oldest first, and says which buckets are empty', async () => {
    const { params, ref } = await make();
    const beats = [5, 6, 29, 31].map((minutes, index) => ({
      atMs: daysAgo(1) + minutes * 60_000,
      measurements: { rows: index ** 2 },
    }));
    await insertBeats(api.pool, ref, beats);
    const query = { ...range, measurement: 'rows', bucketSeconds: 900 };
    const { body } = await api.read.expectSuccess('readSeries', { params, query });
    expect(body).toEqual({
      measurement: 'rows',
      bucketSeconds: 900,
      items: [
        { startAt: yesterday(0), endAt: yesterday(15), count: 2, minimum: 0, maximum: 1, mean: 0.5 },
        { startAt: yesterday(15), endAt: yesterday(30), count: 1, minimum: 4, maximum: 4, mean: 4 },
        { startAt: yesterday(30), endAt: yesterday(45), count: 1, minimum: 9, maximum: 9, mean: 9 },
        { startAt: yesterday(45), endAt: yesterday(60), count: 0 },
      ],
    });
  });

  it('without a measurement it is of the seconds between beats, in at most 500 buckets', async () => {
    const { params, ref } = await make();
    const beats = [0, 5, 20].map((minutes) => ({ atMs: daysAgo(1) + minutes * 60_000 }));
    await insertBeats(api.pool, ref, beats);
    const { body } = await api.read.expectSuccess('readSeries', { params, query: range });
    expect(body).toMatchObject({ measurement: 'beatGapSeconds', bucketSeconds: 60 });
    expect(body.items).toHaveLength(60);
    expect(body.items.filter(({ count }) => count > 0)).toEqual([
      { startAt: yesterday(5), endAt: yesterday(6), count: 1, minimum: 300, maximum: 300, mean: 300 },
      { startAt: yesterday(20), endAt: yesterday(21), count: 1, minimum: 900, maximum: 900, mean: 900 },
    ]);
    const year = { since: iso(daysAgo(364)), until: iso(daysAgo(-1)) };
    const whole = await api.read.expectSuccess('readSeries', { params, query: year });
    expect(whole.body.bucketSeconds).toBe(86_400);
    expect(whole.body.items).toHaveLength(365);
  });

  it('buckets begin at multiples of their length, and only what lies from since to before until counts', async () => {
    const { params, ref } = await make();
    const beats = [9, 10, 11, 12].map((minutes) => ({
      atMs: daysAgo(1) + minutes * 60_000,
      measurements: { rows: minutes },
    }));
    await insertBeats(api.pool, ref, beats);
    const query = { since: yesterday(10), until: yesterday(12), measurement: 'rows', bucketSeconds: 3600 };
    const { body } = await api.read.expectSuccess('readSeries', { params, query });
    expect(body.items).toEqual([
      { startAt: yesterday(0), endAt: yesterday(60), count: 2, minimum: 10, maximum: 11, mean: 10.5 },
    ]);
  });

  it('a beat is in the series as soon as it is answered', async () => {
    const { params, publishUrl } = await make();
    const since = iso(Date.now() - 3_600_000);
    for (let index = 1; index <= 3; index += 1) {
      expect((await beat(publishUrl, { rows: index })).status).toBe(200);
      for (const bucketSeconds of [60, 86_400]) {
        const query = { since, until: iso(Date.now() + 3_600_000), measurement: 'rows', bucketSeconds };
        const { body } = await api.read.expectSuccess('readSeries', { params, query });
        expect(body.items.reduce((sum, { count }) => sum + count, 0)).toBe(index);
      }
    }
  });

  it('has hours of days whose observations are dropped', async () => {
    const { params, ref } = await make();
    await insertBeats(api.pool, ref, [{ atMs: daysAgo(50) + 1, measurements: { rows: 7 } }]);
    await beginSumsAt(api.pool, daysAgo(50));
    await sumUpUntil(api.pool, daysAgo(1));
    await api.pool.query('delete from observations where monitor_key = $1', [ref.monitorKey]);
    const query = { since: iso(daysAgo(51)), until: iso(daysAgo(49)), measurement: 'rows' };
    const { body } = await api.read.expectSuccess('readSeries', { params, query });
    expect(body.bucketSeconds).toBe(3600);
    expect(body.items.filter(({ count }) => count > 0)).toMatchObject([
      { startAt: iso(daysAgo(50)), count: 1, mean: 7 },
    ]);
  });

  it('says of days that a smaller plan deleted what it knows of them, and never that they were silent', async () => {
    const { params, ref } = await make();
    const days = [4, 3, 2, 1];
    const beats = days.map((day) => ({ atMs: daysAgo(day) + 90 * 60_000, measurements: { rows: day } }));
    await insertBeats(api.pool, ref, beats);
    await api.pool.query('update monitor_live set last_sequence = 4 where monitor_key = $1', [
      ref.monitorKey,
    ]);
    await beginSumsAt(api.pool, daysAgo(4));
    await sumUpUntil(api.pool, daysAgo(0));
    const read = (since: number, bucketSeconds?: number) => {
      const query = { since: iso(since), until: iso(daysAgo(0)), measurement: 'rows', bucketSeconds };
      return api.read.call('readSeries', { params, query });
    };
    expect((await read(daysAgo(4), 1800)).status).toBe(200);
    const first = async (...[since, seconds]: Parameters<typeof read>) => {
      const { body } = await read(since, seconds);
      return body?.items.filter(({ count }) => count > 0).map(({ mean }) => mean);
    };
    await api.pool.query('delete from observations where monitor_key = $1 and sequence <= 2', [
      ref.monitorKey,
    ]);
    const { status, problem } = await read(daysAgo(4), 1800);
    expect(status).toBe(400);
    expect(problem?.fieldErrors?.[0]).toMatchObject({
      code: 'too_fine',
      message: expect.stringContaining('since is before the observations that are kept'),
    });
    expect(await first(daysAgo(4))).toEqual(days);
    expect(await first(daysAgo(4), 7200)).toEqual(days);
    expect(await first(daysAgo(1), 1800)).toEqual([1]);
    await api.pool.query('delete from observations where monitor_key = $1', [ref.monitorKey]);
    expect((await read(daysAgo(1), 1800)).status).toBe(400);
    expect(await first(daysAgo(4))).toEqual(days);
  });

  it('of a measurement that no beat had, every bucket is empty', async () => {
    const { params } = await make();
    const query = { ...range, measurement: 'unknown', bucketSeconds: 3600 };
    const { body } = await api.read.expectSuccess('readSeries', { params, query });
    expect(body.items).toEqual([{ startAt: yesterday(0), endAt: yesterday(60), count: 0 }]);
  });
});

describe('the bounds of a series', () => {
  const at = (ms: number) => iso(daysAgo(1) + ms);
  it.each([
    ['since', 'required', { until: range.until }],
    ['until', 'required', { since: range.since }],
    ['since', 'invalid_format', { ...range, since: 'yesterday' }],
    ['until', 'ends_before_start', { since: range.since, until: range.since }],
    ['until', 'ends_before_start', { since: range.until, until: range.since }],
    ['until', 'too_long', { since: at(-365 * DAY_MS), until: at(1) }],
    ['bucketSeconds', 'too_small', { ...range, bucketSeconds: 0 }],
    ['bucketSeconds', 'too_big', { ...range, bucketSeconds: 31_536_001 }],
    ['bucketSeconds', 'too_many', { ...range, bucketSeconds: 1 }],
    ['bucketSeconds', 'too_fine', { since: iso(daysAgo(40)), until: iso(daysAgo(39)), bucketSeconds: 900 }],
    ['measurement', 'invalid_format', { ...range, measurement: 'Rows' }],
    ['measurement', 'too_long', { ...range, measurement: 'r'.repeat(65) }],
    ['limit', 'unknown_field', { ...range, limit: 10 }],
  ])('%s that is %s is a 400 that names it: %o', async (path, code, query) => {
    const { params } = await make();
    const { status, problem } = await api.read.call('readSeries', { params, query: query as typeof range });
    expect(status).toBe(400);
    expect(problem?.code).toBe('service.validation_failed');
    expect(problem?.fieldErrors?.[0]).toMatchObject({ path, code });
    expect(problem?.fieldErrors?.every((fault) => fault.path === path)).toBe(true);
  });

  it('365 days and 2000 buckets are allowed', async () => {
    const { params } = await make();
    const year = { since: at(-365 * DAY_MS), until: at(0), bucketSeconds: 21_600 };
    const { body } = await api.read.expectSuccess('readSeries', { params, query: year });
    expect(body.items).toHaveLength(1_460);
    const minutes = { since: at(0), until: at(2_000 * 1_000), bucketSeconds: 1 };
    const { body: fine } = await api.read.expectSuccess('readSeries', { params, query: minutes });
    expect(fine.items).toHaveLength(2_000);
  });

  it('the first and the last time that can be written are read like others', async () => {
    const { params } = await make();
    for (const query of [
      { since: '0001-01-01T00:00:00Z', until: '0001-01-02T00:00:00Z' },
      { since: '9999-12-31T00:00:00Z', until: '9999-12-31T23:59:59.999Z', bucketSeconds: 604_800 },
    ]) {
      const { body } = await api.read.expectSuccess('readSeries', { params, query });
      expect(body.items.every(({ count }) => count === 0)).toBe(true);
      for (const { startAt, endAt } of body.items) {
        expect(startAt).toMatch(/^\d{4}-/);
        expect(endAt).toMatch(/^\d{4}-/);
      }
    }
  });

  it('a monitor that the caller may not see has none', async () => {
    const { params } = await make();
    expect((await api.other.manage.call('readSeries', { params, query: range })).status).toBe(404);
    expect((await api.anonymous.call('readSeries', { params, query: range })).status).toBe(401);
    const unknown = { params: { monitorId: 'mon_unknown' }, query: range };
    expect((await api.read.call('readSeries', unknown)).status).toBe(404);
  });
});
