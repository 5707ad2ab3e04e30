// Acknowledge, resolve, note: what they change, what they send, and what they leave alone.
// Holds: acknowledgeIncident, resolveIncident, noteIncident.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

async function openIncident(body: object = {}) {
  const monitor = await makeMonitor(api, body);
  const params = { incidentId: await monitor.fail() };
  return {
    monitor,
    params,
    timeline: async () => (await api.read.expectSuccess('getIncidentTimeline', { params })).body.items,
    /** The newest first. */
    deliveries: async () => (await api.read.expectSuccess('listIncidentDeliveries', { params })).body.items,
    openOnMonitor: async () => {
      const monitorParams = { monitorId: monitor.monitorId };
      const { body: record } = await api.read.expectSuccess('getMonitor', { params: monitorParams });
      const { rows } = await api.pool.query<{ open_incidents: number }>(
        'select open_incidents from monitor_live join monitors using (project_id, monitor_key) where monitor_id = $1',
        [monitor.monitorId],
      );
      return [record.status.openIncidents.length, rows[0]?.open_incidents];
    },
  };
}

describe('acknowledging', () => {
  it('an acknowledgement shows who made it, writes the timeline and alerts the endpoint', async () => {
    const incident = await openIncident();
    const answer = await api.member.expectSuccess('acknowledgeIncident', {
      params: incident.params,
      body: { note: '  on it  ' },
    });
    const actor = { kind: 'session', id: expect.any(String), display: 'member of acme (member@acme)' };
    expect(answer.body).toMatchObject({
      ...incident.params,
      state: 'open',
      acknowledgedAt: expect.any(String),
      acknowledgedBy: actor,
    });
    expect((await incident.timeline()).at(-1)).toEqual({
      at: answer.body.acknowledgedAt,
      type: 'acknowledged',
      actor,
      note: 'on it',
    });
    expect(await incident.deliveries()).toMatchObject([
      { event: 'incident.acknowledged', sequence: 2, state: 'pending', ...incident.params },
      { event: 'incident.opened', sequence: 1, state: 'pending' },
    ]);
    expect(await incident.openOnMonitor()).toEqual([1, 1]);
  });

  it('a second acknowledgement keeps the first, sends no alert, and adds its note', async () => {
    const incident = await openIncident();
    const { params } = incident;
    const first = await api.manage.expectSuccess('acknowledgeIncident', { params });
    const second = await api.member.expectSuccess('acknowledgeIncident', {
      params,
      body: { note: 'me too' },
    });
    expect(second.body).toEqual(first.body);
    expect(await incident.deliveries()).toHaveLength(2);
    const types = (await incident.timeline()).map((entry) => [entry.type, entry.note]);
    expect(types).toEqual([
      ['opened', undefined],
      ['acknowledged', undefined],
      ['note', 'me too'],
    ]);
  });

  it('an acknowledgement shows in the status feed', async () => {
    const incident = await openIncident();
    const { body: before } = await api.read.expectSuccess('getStatusFeed');
    await api.manage.expectSuccess('acknowledgeIncident', { params: incident.params });
    const query = { cursor: before.nextCursor };
    const { body: after } = await api.read.expectSuccess('getStatusFeed', { query });
    expect(after.items.map((item) => item.monitorId)).toEqual([incident.monitor.monitorId]);
  });
});

describe('resolving', () => {
  it('resolving ends the incident, lets its cause open a new one, and alerts the endpoint', async () => {
    const incident = await openIncident();
    const { params, monitor } = incident;
    const answer = await api.manage.expectSuccess('resolveIncident', { params, body: { note: 'by hand' } });
    expect(answer.body).toMatchObject({ state: 'resolved', resolvedAt: expect.any(String) });
    expect((await incident.timeline()).at(-1)).toMatchObject({
      type: 'resolved',
      from: 'open',
      to: 'resolved',
      note: 'by hand',
      actor: { kind: 'api_credential', display: 'manage' },
    });
    expect((await incident.deliveries())[0]).toMatchObject({ event: 'incident.resolved', sequence: 2 });
    expect(await incident.openOnMonitor()).toEqual([0, 0]);
    const { rows } = await api.pool.query<{ body: string }>(
      "select body from deliveries where incident_id = $1 and event = 'incident.resolved'",
      [params.incidentId],
    );
    // The monitor of an event has its name.
    const { monitorName: _name, ...record } = answer.body;
    expect(JSON.parse(rows[0]?.body ?? '')).toMatchObject({
      type: 'incident.resolved',
      data: {
        organizationId: api.organizationId,
        projectName: api.projectName,
        incident: record,
        monitor: { monitorId: monitor.monitorId, lastBeatAt: expect.any(String) },
        sequence: 2,
        previousState: 'open',
      },
    });
    expect(await monitor.fail()).not.toBe(params.incidentId);
    expect(await incident.openOnMonitor()).toEqual([1, 1]);
  });

  it('resolving the incident of a silent monitor starts its clock again', async () => {
    const { monitor, params } = await openIncident({ graceSeconds: 60 });
    // No sweeper runs here: this is the state that it writes at a missed deadline.
    await api.pool.query("update incidents set kind = 'missed_deadline' where incident_id = $1", [
      params.incidentId,
    ]);
    await api.pool.query(
      `update monitor_live set deadline_ms = null, wake_ms = null
       where monitor_key = (select monitor_key from monitors where monitor_id = $1)`,
      [monitor.monitorId],
    );
    const { body } = await api.manage.expectSuccess('resolveIncident', { params, body: {} });
    const { body: record } = await api.read.expectSuccess('getMonitor', {
      params: { monitorId: monitor.monitorId },
    });
    expect(Date.parse(record.status.nextDeadlineAt ?? '')).toBe(
      Date.parse(body.resolvedAt ?? '') + 3_660_000,
    );
  });

  it('the gap around a resolved incident does not change the learned cadence', async () => {
    const monitor = await makeMonitor(api, { intervalSeconds: undefined });
    const samples = async () => {
      const params = { monitorId: monitor.monitorId };
      return (await api.read.expectSuccess('getMonitor', { params })).body.status.cadence.sampleCount;
    };
    for (let beats = 0; beats < 3; beats += 1) await monitor.beat();
    const incidentId = await monitor.fail();
    await api.manage.expectSuccess('resolveIncident', { params: { incidentId }, body: {} });
    await monitor.beat();
    expect(await samples()).toBe(2);
    await monitor.beat();
    expect(await samples()).toBe(3);
  });

  it('resolving a recovering incident shows the former state', async () => {
    const incident = await openIncident({ recoveryBeats: 3 });
    await incident.monitor.beat();
    await api.manage.expectSuccess('resolveIncident', { params: incident.params });
    expect((await incident.timeline()).at(-1)).toMatchObject({ from: 'recovering', to: 'resolved' });
    expect(await incident.openOnMonitor()).toEqual([0, 0]);
  });

  it('an ended incident refuses actions and still takes notes', async () => {
    const [recovered, resolved] = [await openIncident(), await openIncident()];
    await recovered.monitor.beat();
    await api.manage.expectSuccess('resolveIncident', { params: resolved.params });
    for (const { params, timeline, deliveries } of [recovered, resolved]) {
      const before = (await api.read.expectSuccess('getIncident', { params })).body;
      const sent = (await deliveries()).length;
      for (const id of ['acknowledgeIncident', 'resolveIncident'] as const) {
        const { problem } = await api.manage.call(id, { params });
        expect(problem).toMatchObject({ status: 409, code: 'service.conflict', retryable: false });
      }
      const { body } = await api.manage.expectSuccess('noteIncident', { params, body: { note: 'why' } });
      expect(body).toEqual(before);
      expect((await timeline()).at(-1)).toMatchObject({ type: 'note', note: 'why' });
      expect(await deliveries()).toHaveLength(sent);
    }
  });

  it('of many actions at once one ends the incident, and a beat ends it only if it comes first', async () => {
    const incident = await openIncident();
    const { params, monitor } = incident;
    const [beat, ...answers] = await Promise.all([
      monitor.beat(),
      ...Array.from({ length: 6 }, () => api.manage.call('resolveIncident', { params })),
    ]);
    expect(beat).toBeUndefined();
    const succeeded = answers.filter((answer) => answer.status === 200);
    const ends = (await incident.timeline()).filter(
      ({ type }) => type === 'resolved' || type === 'recovered',
    );
    expect(ends).toHaveLength(1);
    expect(succeeded).toHaveLength(ends[0]?.type === 'resolved' ? 1 : 0);
    expect(await incident.deliveries()).toHaveLength(2);
    expect(await incident.openOnMonitor()).toEqual([0, 0]);
  });
});

describe('while alerts are suppressed', () => {
  it('an action while alerts are suppressed writes the timeline and sends nothing', async () => {
    const incident = await openIncident();
    const monitorParams = { monitorId: incident.monitor.monitorId };
    const { etag } = await api.read.expectSuccess('getMonitor', { params: monitorParams });
    const pause = { params: monitorParams, body: { action: 'pause' }, ifMatch: etag };
    await api.manage.expectSuccess('changeMonitorLifecycle', pause);
    await api.manage.expectSuccess('resolveIncident', { params: incident.params });
    expect((await incident.timeline()).slice(-2)).toMatchObject([
      { type: 'resolved' },
      { type: 'suppressed', detail: { event: 'incident.resolved', reason: 'paused' } },
    ]);
    expect(await incident.deliveries()).toMatchObject([{ event: 'incident.opened' }]);
    expect(await incident.openOnMonitor()).toEqual([0, 0]);
  });
});

describe('what is asked of a caller', () => {
  it('an action repeated with its key has one effect', async () => {
    const incident = await openIncident();
    const { params } = incident;
    const request = { params, body: { note: 'once' }, idempotencyKey: randomUUID() };
    const first = await api.manage.expectSuccess('noteIncident', request);
    const again = await api.manage.expectSuccess('noteIncident', request);
    expect(again.body).toEqual(first.body);
    expect((await incident.timeline()).filter(({ type }) => type === 'note')).toHaveLength(1);
    const other = await api.manage.call('noteIncident', { ...request, body: { note: 'twice' } });
    expect(other.problem).toMatchObject({ status: 409, code: 'service.idempotency_conflict' });
    const keyless = await api.manage.call('acknowledgeIncident', { params, idempotencyKey: null });
    expect(keyless.problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'Idempotency-Key' }] });
  });

  it('an action needs the right to manage, and a note has 1 to 1,024 characters', async () => {
    const { params } = await openIncident();
    for (const body of [
      {},
      { note: '' },
      { note: '   ' },
      { note: 'x'.repeat(1_025) },
      { note: 'a\u0007b' },
    ]) {
      const { problem } = await api.manage.call('noteIncident', { params, body });
      expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'note' }] });
    }
    await api.manage.expectSuccess('noteIncident', { params, body: { note: '☂'.repeat(1_024) } });
    for (const client of [api.read, api.viewer]) {
      expect((await client.call('acknowledgeIncident', { params })).problem?.status).toBe(403);
      expect((await client.call('resolveIncident', { params })).problem?.status).toBe(403);
      expect((await client.call('noteIncident', { params, body: { note: 'n' } })).problem?.status).toBe(403);
    }
  });
});
