// Maintenance windows that come again and again, over HTTP (docs/contract/monitors.md, "Maintenance schedules").
// Holds: createMonitor, getMonitor, updateMonitor, listMonitors, changeMonitorLifecycle, explainMonitor.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeAddressed } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(() => api?.close());

const MINUTE_MS = 60_000;

/** A time of each day, so many minutes from now, in UTC. */
function cronIn(minutes: number): string {
  const at = new Date(Date.now() + minutes * MINUTE_MS);
  return `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
}

/** Began ten minutes ago and lasts for an hour, each day. */
const running = () => ({ cron: cronIn(-10), timeZone: 'UTC', durationSeconds: 3600, reason: 'Backup' });
const coming = () => ({ cron: cronIn(600), timeZone: 'UTC', durationSeconds: 3600 });

const startOf = (minutes: number) => {
  const at = Date.now() + minutes * MINUTE_MS;
  return at - (at % MINUTE_MS);
};
const read = async (params: { monitorId: string }) =>
  (await api.read.expectSuccess('getMonitor', { params })).body;

describe('a monitor with maintenance schedules', () => {
  it('is in maintenance while a window runs, and its deadline moves to the end of the window', async () => {
    const maintenanceSchedules = [running()];
    const { params, address } = await makeAddressed(api, { intervalSeconds: 300, maintenanceSchedules });
    await fetch(address);
    const seen = await read(params);
    const endsAt = new Date(startOf(50)).toISOString();
    expect(seen.maintenanceSchedules).toEqual(maintenanceSchedules);
    expect(seen.maintenance).toBeUndefined();
    expect(seen.status).toMatchObject({
      health: 'maintenance',
      maintenance: { startsAt: new Date(startOf(-10)).toISOString(), endsAt, reason: 'Backup' },
      nextDeadlineAt: endsAt,
    });
    const { body } = await api.read.expectSuccess('explainMonitor', { params });
    expect(body.because).toMatch(/^In maintenance until [\d:]+ UTC \(Backup\): nothing opens before\.$/);
    expect(body.deadline.parts.map(({ kind }) => kind)).toEqual([
      'last_beat',
      'interval',
      'grace',
      'maintenance',
    ]);
    const query = { health: 'maintenance' as const, limit: 200 };
    const { items } = (await api.read.expectSuccess('listMonitors', { query })).body;
    expect(items.map(({ monitorId }) => monitorId)).toContain(params.monitorId);
  });

  it('shows the window that comes next, at most 30 days ahead', async () => {
    const { params } = await makeAddressed(api, { maintenanceSchedules: [coming()] });
    const startsAt = new Date(startOf(600)).toISOString();
    expect((await read(params)).status).toMatchObject({ health: 'waiting', maintenance: { startsAt } });
    const inMonths = new Date(Date.now() + 40 * 1440 * MINUTE_MS);
    const cron = `0 0 ${inMonths.getUTCDate()} ${inMonths.getUTCMonth() + 1} *`;
    const { params: later } = await makeAddressed(api, {
      maintenanceSchedules: [{ cron, durationSeconds: 60 }],
    });
    const seen = await read(later);
    expect(seen.maintenanceSchedules).toEqual([{ cron, timeZone: 'UTC', durationSeconds: 60 }]);
    expect(seen.status.maintenance).toBeUndefined();
  });

  it('has no alert and no incident in a window, and one window where it overlaps one that a person sets', async () => {
    const { params, address, act } = await makeAddressed(api, { maintenanceSchedules: [running()] });
    await fetch(`${address}/fail`);
    expect((await read(params)).status.openIncidents).toEqual([]);
    const own = {
      startsAt: new Date(Date.now() - MINUTE_MS).toISOString(),
      endsAt: new Date(startOf(120)).toISOString(),
    };
    await act('enter_maintenance', own);
    const seen = await read(params);
    expect(seen.maintenance).toEqual(own);
    expect(seen.status.maintenance).toEqual({
      startsAt: new Date(startOf(-10)).toISOString(),
      endsAt: own.endsAt,
      reason: 'Backup',
    });
  });

  it('leaves a window that a person ends: first the one that was set, then the one of a schedule, which comes again', async () => {
    const { params, act } = await makeAddressed(api, {
      intervalSeconds: 300,
      awaitFirstBeat: false,
      maintenanceSchedules: [running()],
    });
    const own = {
      startsAt: new Date(startOf(-1)).toISOString(),
      endsAt: new Date(startOf(120)).toISOString(),
    };
    await act('enter_maintenance', own);
    await act('exit_maintenance');
    expect((await read(params)).status).toMatchObject({
      health: 'maintenance',
      maintenance: { endsAt: new Date(startOf(50)).toISOString() },
    });
    await act('exit_maintenance');
    const seen = await read(params);
    expect(seen.status).toMatchObject({
      health: 'waiting',
      maintenance: { startsAt: new Date(startOf(-10) + 1440 * MINUTE_MS).toISOString() },
    });
    const waitsMs = Date.parse(seen.status.nextDeadlineAt ?? '') - Date.parse(seen.updatedAt);
    expect(waitsMs).toBe(600_000);
    const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params });
    const again = { params, ifMatch, body: { action: 'exit_maintenance' } };
    const refused = await api.manage.call('changeMonitorLifecycle', again);
    expect([refused.status, refused.problem?.detail]).toEqual([
      409,
      'The monitor has no maintenance window to end.',
    ]);
  });

  it('takes other schedules in place of all, and none for null or an empty list; the deadline follows', async () => {
    const { params, address } = await makeAddressed(api, { intervalSeconds: 300, graceSeconds: 60 });
    const patch = async (change: object) => {
      const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params });
      await api.manage.expectSuccess('updateMonitor', { params, ifMatch, body: { patch: change } });
    };
    await fetch(address);
    const plainAt = (await read(params)).status.nextDeadlineAt;
    await patch({ maintenanceSchedules: [running(), coming()] });
    expect((await read(params)).status.nextDeadlineAt).toBe(new Date(startOf(50)).toISOString());
    await patch({ maintenanceSchedules: [coming()] });
    expect((await read(params)).maintenanceSchedules).toHaveLength(1);
    expect((await read(params)).status.nextDeadlineAt).toBe(plainAt);
    await patch({ maintenanceSchedules: [] });
    expect((await read(params)).maintenanceSchedules).toBeUndefined();
    await patch({ maintenanceSchedules: [coming()] });
    const { configurationVersion } = await read(params);
    await patch({ maintenanceSchedules: null });
    const seen = await read(params);
    expect(seen.maintenanceSchedules).toBeUndefined();
    expect(seen.status.maintenance).toBeUndefined();
    expect(seen.configurationVersion).toBe(configurationVersion + 1);
  });
});

describe('a maintenance schedule is refused', () => {
  const refused = async (schedule: object) => {
    const body = { name: 'Job', maintenanceSchedules: [schedule] };
    const { status, problem } = await api.manage.call('createMonitor', { body });
    return [status, problem?.fieldErrors?.map(({ code, path }) => `${code} ${path}`)];
  };
  const good = { cron: '0 2 * * *', durationSeconds: 3600 };

  it.each([
    ['without a break', { ...good, durationSeconds: 86_400 }, 'no_break', 'durationSeconds'],
    ['that is too short', { ...good, durationSeconds: 59 }, 'too_small', 'durationSeconds'],
    ['that is too long', { cron: '0 2 1 * *', durationSeconds: 604_801 }, 'too_big', 'durationSeconds'],
    ['without a length', { cron: good.cron }, 'required', 'durationSeconds'],
    ['without a time', { durationSeconds: 3600 }, 'required', 'cron'],
    ['of a wrong time', { ...good, cron: '99 2 * * *' }, 'invalid_cron', 'cron'],
    ['of a day that does not exist', { ...good, cron: '0 2 31 2 *' }, 'invalid_cron', 'cron'],
    ['of an unknown time zone', { ...good, timeZone: 'Mars/Olympus' }, 'invalid_time_zone', 'timeZone'],
    ['with an empty reason', { ...good, reason: '' }, 'too_short', 'reason'],
  ])('%s', async (_, schedule, code, field) => {
    expect(await refused(schedule)).toEqual([400, [`${code} maintenanceSchedules.0.${field}`]]);
  });

  it('where several leave no break together', async () => {
    const even = { cron: '0 */2 * * *', durationSeconds: 3600 };
    const body = { name: 'Job', maintenanceSchedules: [even, { ...even, cron: '0 1-23/2 * * *' }] };
    const { status, problem } = await api.manage.call('createMonitor', { body });
    expect([status, problem?.fieldErrors]).toEqual([
      400,
      [
        {
          code: 'no_break',
          path: 'maintenanceSchedules',
          message:
            'Of these schedules together more than 16 windows follow each other without a break: leave one, or state one longer window.',
        },
      ],
    ]);
  });

  it('where there are more than eight', async () => {
    const body = { name: 'Job', maintenanceSchedules: Array(9).fill(good) };
    const { status, problem } = await api.manage.call('createMonitor', { body });
    expect([status, problem?.fieldErrors?.[0]?.path]).toEqual([400, 'maintenanceSchedules']);
    const made = await api.manage.call('createMonitor', {
      body: { ...body, maintenanceSchedules: Array(8).fill(good) },
    });
    expect(made.status).toBe(201);
  });
});
