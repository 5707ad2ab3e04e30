// The list of monitors over HTTP: its order, its pages, its filters.
// Holds: listMonitors.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { seedMonitors, seedProject } from '../support/seed.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

/** A project of its own for a test, with monitors made over the API. */
async function projectOf(name: string) {
  await api.owner.expectSuccess('createProject', { body: { name } });
  const client = api.manage.as(api.tokens.member, name);
  const make = async (body: Record<string, unknown>) =>
    (await client.expectSuccess('createMonitor', { body })).body;
  return { client, make };
}

type Client = Awaited<ReturnType<typeof projectOf>>['client'];

async function walk(client: Client, query: Record<string, unknown>): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const { body } = await client.expectSuccess('listMonitors', { query: { ...query, cursor } });
    pages.push(body.items.map((item) => item.monitorId));
    cursor = body.nextCursor;
    expect(cursor?.length ?? 0).toBeLessThanOrEqual(512);
  } while (cursor);
  return pages;
}

describe('order and pages', () => {
  it('the list of monitors goes by name ignoring case, then by id, and shows each monitor once', async () => {
    const { client, make } = await projectOf('order');
    for (const [monitorId, name] of [
      ['b2', 'beta'],
      ['z1', 'Alpha'],
      ['a9', 'alpha'],
      ['c3', 'Beta 2'],
      ['A1', 'ALPHA'],
    ]) {
      await make({ monitorId, name });
    }
    expect((await walk(client, { limit: 2 })).flat()).toEqual(['A1', 'a9', 'z1', 'b2', 'c3']);
    expect(await walk(client, { limit: 5 })).toHaveLength(1);
  });

  it('the list of monitors pages through names that are too long for a cursor', async () => {
    const { client, make } = await projectOf('long names');
    const ids = ['p', 'q', 'r', 's'].map((letter) => letter.repeat(128));
    for (const monitorId of ids) await make({ monitorId, name: '\u{1F680}'.repeat(160) });
    expect((await walk(client, { limit: 1 })).flat()).toEqual(ids);
  });

  it('the list of monitors refuses cursors that it did not make', async () => {
    const { client } = await projectOf('cursors');
    const made = (position: unknown) => Buffer.from(JSON.stringify(position)).toString('base64url');
    for (const cursor of [
      'x',
      made(['changes', 3]),
      made(['monitors', 1, 2, 3]),
      made(['monitors', 'a', 'no-jurisdiction']),
    ]) {
      const { problem } = await client.call('listMonitors', { query: { cursor } });
      expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'cursor' }] });
    }
  });

  it('the next page follows when the last monitor of a page is deleted', async () => {
    const { client, make } = await projectOf('deleted');
    for (const name of ['a', 'b', 'c']) await make({ monitorId: name, name });
    const first = await client.expectSuccess('listMonitors', { query: { limit: 2 } });
    await client.expectSuccess('deleteMonitor', {
      params: { monitorId: 'b' },
      ifMatch: '"configuration-1"',
    });
    const query = { limit: 2, cursor: first.body.nextCursor };
    const second = await client.expectSuccess('listMonitors', { query });
    expect(second.body.items.map((item) => item.monitorId)).toEqual(['c']);
  });

  it('the next page leaves out no monitor when the last one, with a long name, is renamed or deleted', async () => {
    const { client, make } = await projectOf('long and gone');
    const ids = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(128));
    for (const monitorId of ids) await make({ monitorId, name: `${monitorId[0]}${'\u{1F680}'.repeat(150)}` });
    const itemsAfter = async (cursor: string | undefined) => {
      const { body } = await client.expectSuccess('listMonitors', { query: { cursor } });
      return body.items.map((item) => item.monitorId[0]).join('');
    };
    const page = await client.expectSuccess('listMonitors', { query: { limit: 2 } });
    const { nextCursor } = page.body;
    expect(await itemsAfter(nextCursor)).toBe('cd');
    const params = { monitorId: ids[1] ?? '' };
    const patch = { body: { patch: { name: 'z' } }, ifMatch: '"configuration-1"' };
    const renamed = await client.expectSuccess('updateMonitor', { params, ...patch });
    expect(await itemsAfter(nextCursor)).toBe('cdb');
    await client.expectSuccess('deleteMonitor', { params, ifMatch: renamed.etag });
    expect(await itemsAfter(nextCursor)).toBe('cd');
  });
});

describe('filters', () => {
  it('the list of monitors filters by labels that must all hold, name prefix, jurisdiction and lifecycle', async () => {
    const { client, make } = await projectOf('filters');
    await make({ monitorId: 'one', name: '100% Backup', labels: { team: 'ops', tier: '1' } });
    await make({ monitorId: 'two', name: '100_ backup', labels: { team: 'ops' }, jurisdiction: 'eu' });
    await make({ monitorId: 'six', name: 'Other', labels: { 'example.com/team': 'web' } });
    await client.expectSuccess('changeMonitorLifecycle', {
      params: { monitorId: 'six' },
      ifMatch: '"configuration-1"',
      body: { action: 'pause' },
    });
    const ids = async (query: Record<string, unknown>) => (await walk(client, query)).flat();
    expect(await ids({ label: ['team=ops'] })).toEqual(['one', 'two']);
    expect(await ids({ label: ['team=ops', 'tier=1'] })).toEqual(['one']);
    expect(await ids({ label: ['team=ops', 'team=web'] })).toEqual([]);
    expect(await ids({ label: 'example.com/team=web' })).toEqual(['six']);
    expect(await ids({ name: '100% b' })).toEqual(['one']);
    expect(await ids({ name: '100_' })).toEqual(['two']);
    expect(await ids({ name: '100' })).toEqual(['one', 'two']);
    expect(await ids({ name: '100 ' })).toEqual([]); // a beginning keeps its blanks
    await make({ monitorId: 'big', name: 'Große ΟΔΟΣΑ' });
    expect(await ids({ name: 'GROSSE ΟΔΟΣ' })).toEqual(['big']);
    expect(await ids({ jurisdiction: 'eu' })).toEqual(['two']);
    expect(await ids({ lifecycle: 'paused' })).toEqual(['six']);
    expect(await ids({ health: 'paused' })).toEqual(['six']);
    expect(await ids({ health: 'waiting', label: 'tier=1' })).toEqual(['one']);
  });

  it('a filter by health fills its pages also when few monitors have it', async () => {
    const { client } = await projectOf('rare');
    const { rows } = await api.pool.query<{ project_id: string; organization_id: string }>(
      "select project_id, organization_id from projects where name = 'rare'",
    );
    const projectId = rows[0]?.project_id ?? '';
    const project = { projectId, organizationId: rows[0]?.organization_id ?? '' };
    const seeded = await seedMonitors(api.pool, project, 60, { live: { first_beat_ms: 1 } });
    const down = seeded.filter((_, index) => index % 20 === 7);
    for (const { monitorKey, monitorId } of down) {
      await api.pool.query(
        `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
           opened_at, summary)
         values ($1, 'inc_' || $2::text, $2::uuid, $3, 'unrestricted', 'missed_deadline', 'open', 'critical', now(), 'x')`,
        [projectId, monitorKey, monitorId],
      );
    }
    const pages = await walk(client, { health: 'down', limit: 2 });
    expect(pages.map((page) => page.length)).toEqual([2, 1]);
    expect(pages.flat()).toEqual(down.map((monitor) => monitor.monitorId).sort());
    const { body } = await client.expectSuccess('listMonitors', { query: { health: 'down' } });
    expect(body.items[0]?.status.openIncidents).toMatchObject([{ kind: 'missed_deadline', state: 'open' }]);
    expect((await walk(client, { health: 'up', limit: 200 })).flat()).toHaveLength(57);
  });

  it('a scheduled monitor is shown and listed as late from half of the grace after the cron time', async () => {
    const { client } = await projectOf('scheduled');
    const { rows } = await api.pool.query<{ project_id: string; organization_id: string }>(
      "select project_id, organization_id from projects where name = 'scheduled'",
    );
    const project = { projectId: rows[0]?.project_id ?? '', organizationId: rows[0]?.organization_id ?? '' };
    const seed = async (deadlineInMs: number) => {
      const [monitor] = await seedMonitors(api.pool, project, 1, {
        configuration: {
          interval_seconds: null,
          schedule_cron: '0 * * * *',
          schedule_time_zone: 'UTC',
          grace_seconds: 2_000,
        },
        live: { first_beat_ms: 1, deadline_ms: Date.now() + deadlineInMs },
      });
      return monitor?.monitorId;
    };
    const up = await seed(1_500_000);
    const late = await seed(500_000);
    for (const [health, monitorId] of [
      ['up', up],
      ['late', late],
    ] as const) {
      const { body } = await client.expectSuccess('listMonitors', { query: { health } });
      expect(body.items).toMatchObject([{ monitorId, status: { health } }]);
    }
  });

  it('the list of monitors shows no monitor of another organization', async () => {
    const stranger = await seedProject(api.pool);
    await seedMonitors(api.pool, stranger, 2);
    const { body } = await api.other.manage.expectSuccess('listMonitors');
    expect(body.items).toEqual([]);
  });
});
