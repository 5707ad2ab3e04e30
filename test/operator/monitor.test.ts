// A Monitor from YAML to the API and back, on a real API server and a real api.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findCondition } from '../../src/kube/conditions.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('a Monitor', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator();
  });
  afterAll(() => fixture.close());

  const patch = (name: string, spec: object) =>
    fixture.kube.client.mergePatch(MONITORS, { namespace: fixture.namespace, name }, { spec });
  const record = async (name: string) => {
    const monitorId = (await fixture.monitor(name)).status?.monitorId ?? '';
    return await fixture.api.expectSuccess('getMonitor', { params: { monitorId } });
  };
  const disabled = { callback: { kind: 'disabled' } };
  /** Resolves when `Healthy` says so. */
  const messageBecomes = (name: string, pattern: RegExp) => {
    const wanted = new RegExp(
      pattern.source.replaceAll('TIME', String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`),
    );
    const messageOf = async () =>
      findCondition((await fixture.monitor(name)).status?.conditions, 'Healthy')?.message ?? '';
    return waitFor(async () => wanted.test(await messageOf()), { what: `${name} says ${wanted}` });
  };

  it('a Monitor creates its monitor in the project of its namespace, and a Secret with the address', async () => {
    await fixture.createMonitor(
      'backup',
      { intervalSeconds: 300, graceSeconds: 90, ...disabled },
      { labels: { team: 'a' } },
    );
    const object = await fixture.monitorBecomes('backup', 'Ready', 'True');
    const { body } = await record('backup');
    expect(body).toMatchObject({
      name: 'backup',
      intervalSeconds: 300,
      graceSeconds: 90,
      labels: { team: 'a' },
    });
    expect(object.status).toMatchObject({
      monitorId: `mon_${object.metadata.uid?.replaceAll('-', '')}`,
      health: 'waiting',
      lifecycle: 'active',
      configurationVersion: body.configurationVersion,
      publishSecretRef: { name: 'backup-beat' },
      display: { interval: '5m', callback: 'none' },
    });
    expect(await fixture.secret('backup-beat')).toEqual({ url: body.publishUrl });
    expect(JSON.stringify(object)).not.toContain(body.publishUrl);
    expect((await fixture.eventAppears('backup', 'Created')).type).toBe('Normal');
  });

  it('a Monitor shows beats, failures and recoveries, and has Events of incidents', async () => {
    await fixture.createMonitor('job', { intervalSeconds: 300, ...disabled });
    await fixture.monitorBecomes('job', 'Ready', 'True');
    const health = (wanted: string) =>
      waitFor(async () => (await fixture.monitor('job')).status?.health === wanted, {
        what: `job is ${wanted}`,
      });
    await fixture.beat('job-beat');
    await health('up');
    expect((await fixture.monitorBecomes('job', 'Healthy', 'True')).status?.lastBeatAt).toBeDefined();
    await fixture.beat('job-beat', '/fail');
    await health('down');
    const down = await fixture.monitorBecomes('job', 'Healthy', 'False');
    expect(down.status?.display?.incident).toBe('reported_failure');
    expect((await fixture.eventAppears('job', 'IncidentOpened')).type).toBe('Warning');
    await fixture.beat('job-beat');
    await health('up');
    expect((await fixture.eventAppears('job', 'IncidentRecovered')).note).toContain('reported_failure');
    expect((await fixture.monitor('job')).status?.openIncidents).toBeUndefined();
  });

  it('a monitor follows the spec, and a field that leaves the spec gets its default again', async () => {
    const rows = { metricType: 'gauge', minimum: 1 };
    await fixture.createMonitor('changing', {
      intervalSeconds: 300,
      graceSeconds: 120,
      measurements: { rows },
      ...disabled,
    });
    await fixture.monitorBecomes('changing', 'Ready', 'True');
    expect((await record('changing')).body.measurements.rows).toMatchObject({ minimum: 1 });
    await patch('changing', {
      intervalSeconds: null,
      graceSeconds: null,
      measurements: null,
      schedule: { cron: '0 2 * * *' },
    });
    await waitFor(async () => (await record('changing')).body.schedule !== undefined, {
      what: 'the schedule is there',
    });
    const object = await fixture.monitorBecomes('changing', 'Synced', 'True');
    const { body } = await record('changing');
    expect(body).toMatchObject({
      graceSeconds: 300,
      measurements: {},
      schedule: { cron: '0 2 * * *', timeZone: 'UTC' },
    });
    expect(object.status?.ownedFields).toEqual(['callback', 'schedule']);
    expect(object.status?.display?.interval).toBe('cron 0 2 * * *');
    await fixture.eventAppears('changing', 'Updated');
  });

  it('a Monitor whose deadline was missed says in Healthy when its last beat came and what the deadline was', async () => {
    await fixture.createMonitor('silent', { intervalSeconds: 3600, ...disabled });
    await fixture.monitorBecomes('silent', 'Ready', 'True');
    await fixture.beat('silent-beat');
    const up = await fixture.monitorBecomes('silent', 'Healthy', 'True', 'Up');
    await fixture.apiFixture.pool.query(
      `with m as (update monitors set updated_at = updated_at - interval '2 hours' where monitor_id = $1
         returning monitor_key)
       update monitor_live set anchor_ms = anchor_ms - 7200000, deadline_ms = deadline_ms - 7200000, wake_ms = deadline_ms - 7200000,
         first_beat_ms = first_beat_ms - 7200000, last_beat_ms = last_beat_ms - 7200000,
         last_success_ms = last_success_ms - 7200000
       where monitor_key in (table m)`,
      [up.status?.monitorId],
    );
    await moveClock(fixture.apiFixture.pool);
    await drain(makeSweep(fixture.apiFixture.pool));
    await fixture.monitorBecomes('silent', 'Healthy', 'False', 'Down');
    await messageBecomes(
      'silent',
      /^Down since TIME: no beat since TIME; the deadline was TIME \(interval 1 h, grace 5 min\)\.$/,
    );
    expect((await fixture.eventAppears('silent', 'IncidentOpened')).note).toMatch(/^No beat came in time/);
  });

  it('a field that was changed through the API is restored, and a field that the spec never set is kept', async () => {
    await fixture.createMonitor('drifting', { graceSeconds: 120, ...disabled });
    await fixture.monitorBecomes('drifting', 'Ready', 'True');
    const { etag, body } = await record('drifting');
    await fixture.api.expectSuccess('updateMonitor', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
      body: { patch: { graceSeconds: 999, description: 'mine' } },
    });
    await waitFor(async () => (await record('drifting')).body.graceSeconds === 120, {
      what: 'the field is restored',
    });
    expect((await record('drifting')).body.description).toBe('mine');
    expect((await fixture.eventAppears('drifting', 'Drifted')).note).toContain('graceSeconds');
  });

  it('a status that somebody else has written is corrected', async () => {
    await fixture.createMonitor('forged', { graceSeconds: 120, ...disabled });
    const { status } = await fixture.monitorBecomes('forged', 'Ready', 'True');
    const openIncidents = [
      {
        ...{ incidentId: 'inc_forged', kind: 'missed_deadline', state: 'open', severity: 'critical' },
        openedAt: '2026-01-01T00:00:00Z',
      },
    ];
    const forged = {
      health: 'down',
      ownedFields: ['name'],
      restorableUntil: '2030-01-01T00:00:00Z',
      openIncidents,
    };
    const ref = { namespace: fixture.namespace, name: 'forged' };
    const write = { subresource: 'status' as const, fieldManager: 'somebody' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { status: forged }, write);
    await waitFor(async () => isDeepStrictEqual((await fixture.monitor('forged')).status, status), {
      what: 'the status is as before',
    });
  });

  it('a monitor that was deleted through the API is created again under the same id', async () => {
    await fixture.createMonitor('lost', disabled);
    const { status } = await fixture.monitorBecomes('lost', 'Ready', 'True');
    const { etag, body } = await record('lost');
    await fixture.api.expectSuccess('deleteMonitor', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
    });
    await fixture.eventAppears('lost', 'Drifted');
    await waitFor(async () => (await fixture.secret('lost-beat'))?.url !== body.publishUrl, {
      what: 'a new address',
    });
    expect((await record('lost')).body.monitorId).toBe(status?.monitorId);
  });

  it('spec.lifecycle pauses, resumes, archives and restores the monitor', async () => {
    await fixture.createMonitor('living', disabled);
    await fixture.monitorBecomes('living', 'Ready', 'True');
    const lifecycle = (wanted: string) =>
      waitFor(async () => (await fixture.monitor('living')).status?.lifecycle === wanted, {
        what: `it is ${wanted}`,
      });
    await patch('living', { lifecycle: 'paused' });
    await lifecycle('paused');
    await fixture.monitorBecomes('living', 'Healthy', 'Unknown', 'Paused');
    await messageBecomes('living', /^Paused since TIME by .+: beats are recorded, and no deadline runs\.$/);
    await patch('living', { lifecycle: 'archived' });
    await lifecycle('archived');
    const archived = await fixture.monitorBecomes('living', 'Ready', 'True', 'Archived');
    await messageBecomes('living', /^Archived since TIME by .+: beats are refused\.$/);
    expect(archived.status?.restorableUntil).toBeDefined();
    await patch('living', { lifecycle: null });
    await lifecycle('active');
    expect((await fixture.monitor('living')).status?.restorableUntil).toBeUndefined();
  });

  it('a monitor is in maintenance during the window of its spec, and a past window is ignored', async () => {
    const at = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    await fixture.createMonitor('windowed', {
      ...disabled,
      maintenance: { startsAt: at(-1), endsAt: at(1), reason: 'move' },
    });
    await waitFor(async () => (await fixture.monitor('windowed')).status?.health === 'maintenance', {
      what: 'maintenance',
    });
    await patch('windowed', { maintenance: null });
    await waitFor(async () => (await fixture.monitor('windowed')).status?.health === 'waiting', {
      what: 'the end of the maintenance',
    });
    await fixture.createMonitor('old', { ...disabled, maintenance: { startsAt: at(-3), endsAt: at(-2) } });
    await fixture.monitorBecomes('old', 'Ready', 'True');
  });

  it('a deleted or edited Secret is restored, and follows an address that was rotated through the API', async () => {
    await fixture.createMonitor('kept', disabled);
    await fixture.monitorBecomes('kept', 'Ready', 'True');
    const ref = { namespace: fixture.namespace, name: 'kept-beat' };
    const { body, etag } = await record('kept');
    await fixture.kube.client.delete(SECRETS, ref);
    await waitFor(async () => (await fixture.secret('kept-beat'))?.url === body.publishUrl, {
      what: 'the Secret is back',
    });
    await fixture.eventAppears('kept', 'SecretRestored');
    await fixture.kube.client.mergePatch(SECRETS, ref, {
      data: { url: Buffer.from('wrong').toString('base64') },
    });
    await waitFor(async () => (await fixture.secret('kept-beat'))?.url === body.publishUrl, {
      what: 'the Secret is right',
    });
    await fixture.api.expectSuccess('rotatePublishUrl', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
    });
    const rotated = (await record('kept')).body.publishUrl;
    await waitFor(async () => (await fixture.secret('kept-beat'))?.url === rotated, {
      what: 'the new address',
    });
    await fixture.eventAppears('kept', 'SecretRotated');
  });

  it('a Secret of another owner is never overwritten', async () => {
    const data = { url: Buffer.from('theirs').toString('base64') };
    await fixture.kube.client.create(SECRETS, {
      metadata: { name: 'taken-beat', namespace: fixture.namespace },
      data,
    });
    await fixture.createMonitor('taken', disabled);
    await fixture.monitorBecomes('taken', 'Ready', 'False', 'SecretConflict');
    expect(await fixture.secret('taken-beat')).toEqual({ url: 'theirs' });
    await fixture.eventAppears('taken', 'Conflict');
    await patch('taken', { publishSecretName: 'other' });
    await fixture.monitorBecomes('taken', 'Ready', 'True');
    expect((await fixture.secret('other'))?.url).toContain('/ping/');
  });

  it('kubectl delete archives the monitor and removes the Secret', async () => {
    await fixture.createMonitor('going', disabled);
    const { status } = await fixture.monitorBecomes('going', 'Ready', 'True');
    expect((await fixture.kubectl(['delete', 'monitor', 'going', '--timeout=200s'])).code).toBe(0);
    const params = { monitorId: status?.monitorId ?? '' };
    expect((await fixture.api.expectSuccess('getMonitor', { params })).body.lifecycle).toBe('archived');
    expect(await fixture.secret('going-beat')).toBeUndefined();
  });

  it('a Monitor shows a refusal of the API in its words, and is not sent again until it changes', async () => {
    const callback = { kind: 'inline', url: 'https://10.0.0.1/x' };
    const before = operator.calls.get('createMonitor') ?? 0;
    // As `kubectl apply` marks it: an annotation of kubectl must not change the desired state.
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
    await fixture.createMonitor('refused', { callback }, { annotations });
    const object = await fixture.monitorBecomes('refused', 'Ready', 'False', 'Refused');
    const ready = object.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready?.message).toContain('service.callback_destination_rejected');
    expect(ready?.message).toContain('callback.url');
    await fixture.createMonitor('after', disabled);
    await fixture.monitorBecomes('after', 'Ready', 'True');
    expect(operator.calls.get('createMonitor')).toBe(before + 2);
    await patch('refused', { callback: { kind: 'disabled', url: null } });
    await fixture.monitorBecomes('refused', 'Ready', 'True');
  });

  it('kubectl get shows the columns of a Monitor, and kubectl describe its Events', async () => {
    await fixture.createMonitor('seen', { intervalSeconds: 3600, ...disabled });
    expect(
      (await fixture.kubectl(['wait', '--for=condition=Ready', 'mon/seen', '--timeout=200s'])).code,
    ).toBe(0);
    const { stdout } = await fixture.kubectl(['get', 'mon', 'seen', '-o', 'wide']);
    expect(stdout).toMatch(
      /HEALTH +INTERVAL +LAST BEAT +NEXT DEADLINE +INCIDENT +READY +REASON +AGE +MONITOR ID +LIFECYCLE +CALLBACK/,
    );
    expect(stdout).toMatch(/seen +waiting +1h .*True +Available .*mon_[0-9a-f]{32} +active +none/);
    const described = await fixture.kubectl(['describe', 'mon', 'seen']);
    expect(described.stdout).toContain('Created');
  });
});
