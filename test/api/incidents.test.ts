// Reads of incidents: lists with their filters and pages, one record, its timeline.
// Holds: listIncidents, getIncident, getIncidentTimeline, listMonitorIncidents.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const list = async (query: Record<string, unknown>) => {
  const { body } = await api.read.expectSuccess('listIncidents', { query });
  return body.items.map((incident) => incident.incidentId);
};

/** Incidents that ended, written as they would be in the past. */
async function insertPast(monitorId: string, columns: Record<string, unknown>[]): Promise<string[]> {
  const opened = (row: Record<string, unknown>) => row.opened_at ?? '2026-01-01T00:00:00Z';
  const ids = columns.map((row) => newId('inc', Date.parse(String(opened(row)))));
  const rows = columns.map((row, index) => ({
    project_id: api.projectId,
    incident_id: ids[index],
    monitor_key: randomUUID(),
    monitor_id: monitorId,
    jurisdiction: 'unrestricted',
    kind: 'missed_deadline',
    state: 'recovered',
    severity: 'critical',
    opened_at: opened(row),
    violation_count: 1,
    summary: 'No beat came.',
    recovery_count: 0,
    event_sequence: 0,
    ...row,
  }));
  await api.pool.query(
    'insert into incidents select * from jsonb_populate_recordset(null::incidents, $1::jsonb)',
    [JSON.stringify(rows)],
  );
  return ids;
}

describe('an incident', () => {
  it('an incident is read as its record', async () => {
    const monitor = await makeMonitor(api, { name: 'nightly backup' });
    const incidentId = await monitor.fail();
    const { body } = await api.read.expectSuccess('getIncident', { params: { incidentId } });
    expect(body).toEqual({
      incidentId,
      projectId: api.projectId,
      monitorId: monitor.monitorId,
      monitorName: 'nightly backup',
      kind: 'reported_failure',
      state: 'open',
      severity: 'critical',
      openedAt: expect.any(String),
      openSequence: 1,
      lastSequence: 1,
      violationCount: 1,
      summary: expect.any(String),
    });
    const params = { monitorId: monitor.monitorId };
    const { body: page } = await api.read.expectSuccess('listMonitorIncidents', { params });
    expect(page).toEqual({ items: [body] });
  });

  it('an incident says since when it recovers, and when it was over', async () => {
    const monitor = await makeMonitor(api, { recoveryBeats: 2 });
    const params = { incidentId: await monitor.fail() };
    const read = async () => (await api.read.expectSuccess('getIncident', { params })).body;
    const entryOf = async (type: string) => {
      const { body } = await api.read.expectSuccess('getIncidentTimeline', { params });
      return body.items.find((entry) => entry.type === type)?.at;
    };
    await monitor.beat();
    const recovering = await read();
    expect(recovering).toMatchObject({ state: 'recovering', recoveringAt: await entryOf('recovering') });
    expect(recovering).not.toHaveProperty('recoveredAt');
    await monitor.beat();
    const { recoveringAt } = recovering;
    const recoveredAt = await entryOf('recovered');
    expect(await read()).toMatchObject({ state: 'recovered', recoveringAt, recoveredAt, lastSequence: 3 });
  });

  it('an incident of a missed deadline shows that deadline', async () => {
    const at = { opened_at: '2026-01-01T00:00:01Z', deadline_at: '2026-01-01T00:00:00.500Z' };
    const [incidentId = ''] = await insertPast(`past-${randomUUID()}`, [at]);
    const { body } = await api.read.expectSuccess('getIncident', { params: { incidentId } });
    expect(body).toMatchObject({
      kind: 'missed_deadline',
      openedAt: '2026-01-01T00:00:01.000Z',
      deadlineAt: '2026-01-01T00:00:00.500Z',
    });
  });

  it('the timeline of an incident is oldest first, in pages', async () => {
    const monitor = await makeMonitor(api);
    const incidentId = await monitor.fail();
    const params = { incidentId };
    for (const note of ['first', 'second', 'third']) {
      await api.manage.expectSuccess('noteIncident', { params, body: { note } });
    }
    await monitor.beat();
    const seen: unknown[] = [];
    let cursor: string | undefined;
    let pages = 0;
    do {
      const query = { limit: 1, cursor };
      const { body } = await api.read.expectSuccess('getIncidentTimeline', { params, query });
      seen.push(...body.items.map((entry) => [entry.type, entry.note, entry.from, entry.to]));
      cursor = body.nextCursor;
      pages += 1;
    } while (cursor);
    expect(pages).toBe(6);
    expect(seen).toEqual([
      ['opened', undefined, undefined, 'open'],
      ['note', 'first', undefined, undefined],
      ['note', 'second', undefined, undefined],
      ['note', 'third', undefined, undefined],
      ['recovering', undefined, 'open', 'recovering'],
      ['recovered', undefined, 'recovering', 'recovered'],
    ]);
  });

  it('the opening of an incident is the first entry of its timeline, and the incident is its only row', async () => {
    const monitor = await makeMonitor(api);
    const incidentId = await monitor.fail();
    const params = { incidentId };
    const { body: incident } = await api.read.expectSuccess('getIncident', { params });
    const { body } = await api.read.expectSuccess('getIncidentTimeline', { params });
    expect(body).toEqual({ items: [{ at: incident.openedAt, type: 'opened', to: 'open' }] });
    const { rows } = await api.pool.query('select from timeline_entries where incident_id = $1', [
      incidentId,
    ]);
    expect(rows).toEqual([]);
  });

  it('an incident is a 404 for another organization', async () => {
    const monitor = await makeMonitor(api);
    const incidentId = await monitor.fail();
    const params = { incidentId };
    const client = api.other.manage;
    const refused = [
      await client.call('getIncident', { params }),
      await client.call('getIncidentTimeline', { params }),
      await client.call('listIncidentDeliveries', { params }),
      await client.call('acknowledgeIncident', { params }),
      await client.call('resolveIncident', { params }),
      await client.call('noteIncident', { params, body: { note: 'n' } }),
    ];
    expect(refused.map((answer) => answer.problem?.code)).toEqual(Array(6).fill('service.not_found'));
    expect((await client.expectSuccess('listIncidents')).body.items).toEqual([]);
    const query = { monitorId: monitor.monitorId };
    expect((await client.expectSuccess('listIncidents', { query })).body.items).toEqual([]);
    const monitorParams = { monitorId: monitor.monitorId };
    const ofMonitor = await client.call('listMonitorIncidents', { params: monitorParams });
    expect(ofMonitor.problem?.status).toBe(404);
  });
});

describe('the list', () => {
  it('the list filters incidents by state, monitor, severity, jurisdiction and time', async () => {
    const monitorId = `past-${randomUUID()}`;
    const [old = '', resolved = '', eu = '', late = ''] = await insertPast(monitorId, [
      { opened_at: '2026-01-01T00:00:00Z' },
      { opened_at: '2026-01-02T00:00:00Z', state: 'resolved', resolved_at: '2026-01-02T01:00:00Z' },
      { opened_at: '2026-01-03T00:00:00Z', jurisdiction: 'eu', severity: 'info' },
      { opened_at: '2026-01-04T00:00:00.500Z', severity: 'warning' },
    ]);
    expect(await list({ monitorId })).toEqual([late, eu, resolved, old]);
    expect(await list({ monitorId, state: 'resolved' })).toEqual([resolved]);
    expect(await list({ monitorId, severity: 'info' })).toEqual([eu]);
    expect(await list({ monitorId, jurisdiction: 'unrestricted' })).toEqual([late, resolved, old]);
    expect(await list({ monitorId, since: '2026-01-02T00:00:00Z' })).toEqual([late, eu, resolved]);
    expect(await list({ monitorId, until: '2026-01-02T00:00:00Z' })).toEqual([old]);
    const range = { since: '2026-01-02T01:00:00+01:00', until: '2026-01-04T00:00:00.500Z' };
    expect(await list({ monitorId, ...range })).toEqual([eu, resolved]);
    expect(await list({ monitorId: 'nobody' })).toEqual([]);
    const reversed = { since: range.until, until: range.since };
    expect((await api.read.call('listIncidents', { query: reversed })).problem?.status).toBe(400);
    for (const query of [
      { state: 'ended' },
      { severity: 'bad' },
      { since: 'yesterday' },
      { colour: 'red' },
    ]) {
      expect((await api.read.call('listIncidents', { query })).problem).toMatchObject({
        status: 400,
        fieldErrors: [{ path: Object.keys(query)[0] }],
      });
    }
  });

  it('the list pages through many incidents of one moment, newest first', async () => {
    const monitorId = `many-${randomUUID()}`;
    const ids = await insertPast(
      monitorId,
      Array.from({ length: 23 }, (_, index) => ({
        opened_at: `2026-02-0${1 + (index % 2)}T00:00:00.123456Z`,
      })),
    );
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const query = { monitorId, limit: 5, cursor };
      const { body } = await api.read.expectSuccess('listIncidents', { query });
      seen.push(...body.items.map((incident) => incident.incidentId));
      cursor = body.nextCursor;
    } while (cursor);
    const [newer, older] = [1, 0].map((day) =>
      ids
        .filter((_, index) => index % 2 === day)
        .toSorted()
        .toReversed(),
    );
    expect(seen).toEqual([...(newer ?? []), ...(older ?? [])]);
  });

  it('the incidents of a deleted monitor stay in the list, and take notes and no actions', async () => {
    const monitor = await makeMonitor(api);
    const incidentId = await monitor.fail();
    const params = { monitorId: monitor.monitorId };
    const { etag } = await api.read.expectSuccess('getMonitor', { params });
    await api.manage.expectSuccess('deleteMonitor', { params, ifMatch: etag });
    expect((await api.read.call('listMonitorIncidents', { params })).problem?.status).toBe(404);
    expect(await list({ monitorId: monitor.monitorId, state: 'resolved' })).toEqual([incidentId]);
    const left = { params: { incidentId } };
    expect((await api.read.call('getIncidentTimeline', left)).status).toBe(200);
    expect((await api.manage.call('acknowledgeIncident', left)).problem?.status).toBe(409);
    expect((await api.manage.call('resolveIncident', left)).problem?.status).toBe(409);
    const noted = await api.manage.expectSuccess('noteIncident', {
      ...left,
      body: { note: 'closed for good' },
    });
    expect(noted.body.state).toBe('resolved');
  });
});
