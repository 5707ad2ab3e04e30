// A Monitor from YAML to the API and back, on a real API server and a real api.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorRoom, openRoom, type TestOperator } from './operator-room.ts';

describe.skipIf(!hasCluster)('a Monitor', () => {
  let room: OperatorRoom;
  let operator: TestOperator;
  beforeAll(async () => {
    room = await openRoom();
    operator = await room.startOperator();
  });
  afterAll(() => room.close());

  const patch = (name: string, spec: object) =>
    room.kube.client.mergePatch(MONITORS, { namespace: room.namespace, name }, { spec });
  const record = async (name: string) => {
    const monitorId = (await room.monitor(name)).status?.monitorId ?? '';
    return await room.api.expectSuccess('getMonitor', { params: { monitorId } });
  };
  const disabled = { callback: { kind: 'disabled' } };

  it('is made in the project of its namespace, with its address in a Secret', async () => {
    await room.createMonitor(
      'backup',
      { intervalSeconds: 300, graceSeconds: 90, ...disabled },
      { labels: { team: 'a' } },
    );
    const object = await room.monitorBecomes('backup', 'Ready', 'True');
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
    expect(await room.secret('backup-beat')).toEqual({ url: body.publishUrl });
    expect(JSON.stringify(object)).not.toContain(body.publishUrl);
    expect((await room.told('backup', 'Created')).type).toBe('Normal');
  });

  it('shows beats, failures and recovery within two seconds, and tells of incidents', async () => {
    await room.createMonitor('job', { intervalSeconds: 300, ...disabled });
    await room.monitorBecomes('job', 'Ready', 'True');
    const tookMs: number[] = [];
    const health = async (wanted: string) => {
      const stopwatch = startStopwatch();
      await waitFor(async () => (await room.monitor('job')).status?.health === wanted, {
        what: `job is ${wanted}`,
      });
      tookMs.push(stopwatch.stop());
    };
    await room.beat('job-beat');
    await health('up');
    expect((await room.monitorBecomes('job', 'Healthy', 'True')).status?.lastBeatAt).toBeDefined();
    await room.beat('job-beat', '/fail');
    await health('down');
    const down = await room.monitorBecomes('job', 'Healthy', 'False');
    expect(down.status?.display?.incident).toBe('reported_failure');
    expect((await room.told('job', 'IncidentOpened')).type).toBe('Warning');
    await room.beat('job-beat');
    await health('up');
    expect((await room.told('job', 'IncidentRecovered')).note).toContain('reported_failure');
    expect((await room.monitor('job')).status?.openIncidents).toBeUndefined();
    // The best of three: a stopwatch knows of this process alone, and the API server has its part in it.
    expect(Math.min(...tookMs)).toBeLessThan(2000);
  });

  it('follows its spec, and gives back what it sets no more', async () => {
    const rows = { metricType: 'gauge', minimum: 1 };
    await room.createMonitor('changing', {
      intervalSeconds: 300,
      graceSeconds: 120,
      measurements: { rows },
      ...disabled,
    });
    await room.monitorBecomes('changing', 'Ready', 'True');
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
    const object = await room.monitorBecomes('changing', 'Synced', 'True');
    const { body } = await record('changing');
    expect(body).toMatchObject({
      graceSeconds: 300,
      measurements: {},
      schedule: { cron: '0 2 * * *', timeZone: 'UTC' },
    });
    expect(object.status?.ownedFields).toEqual(['callback', 'schedule']);
    expect(object.status?.display?.interval).toBe('cron 0 2 * * *');
    await room.told('changing', 'Updated');
  });

  it('puts back what was changed elsewhere, and leaves alone what it never set', async () => {
    await room.createMonitor('drifting', { graceSeconds: 120, ...disabled });
    await room.monitorBecomes('drifting', 'Ready', 'True');
    const { etag, body } = await record('drifting');
    await room.api.expectSuccess('updateMonitor', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
      body: { patch: { graceSeconds: 999, description: 'mine' } },
    });
    await waitFor(async () => (await record('drifting')).body.graceSeconds === 120, {
      what: 'it is put back',
    });
    expect((await record('drifting')).body.description).toBe('mine');
    expect((await room.told('drifting', 'Drifted')).note).toContain('graceSeconds');
  });

  it('rights a status that somebody wrote into, and tells of nothing that was not', async () => {
    await room.createMonitor('forged', { graceSeconds: 120, ...disabled });
    const { status } = await room.monitorBecomes('forged', 'Ready', 'True');
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
    const ref = { namespace: room.namespace, name: 'forged' };
    const write = { subresource: 'status' as const, fieldManager: 'somebody' };
    await room.kube.client.mergePatch(MONITORS, ref, { status: forged }, write);
    await waitFor(async () => isDeepStrictEqual((await room.monitor('forged')).status, status), {
      what: 'the status is as it was',
    });
  });

  it('is made again when it was deleted elsewhere', async () => {
    await room.createMonitor('lost', disabled);
    const { status } = await room.monitorBecomes('lost', 'Ready', 'True');
    const { etag, body } = await record('lost');
    await room.api.expectSuccess('deleteMonitor', { params: { monitorId: body.monitorId }, ifMatch: etag });
    await room.told('lost', 'Drifted');
    await waitFor(async () => (await room.secret('lost-beat'))?.url !== body.publishUrl, {
      what: 'a new address',
    });
    expect((await record('lost')).body.monitorId).toBe(status?.monitorId);
  });

  it('pauses, resumes, archives and restores', async () => {
    await room.createMonitor('living', disabled);
    await room.monitorBecomes('living', 'Ready', 'True');
    const lifecycle = (wanted: string) =>
      waitFor(async () => (await room.monitor('living')).status?.lifecycle === wanted, {
        what: `it is ${wanted}`,
      });
    await patch('living', { lifecycle: 'paused' });
    await lifecycle('paused');
    await room.monitorBecomes('living', 'Healthy', 'Unknown', 'Paused');
    await patch('living', { lifecycle: 'archived' });
    await lifecycle('archived');
    const archived = await room.monitorBecomes('living', 'Ready', 'True', 'Archived');
    expect(archived.status?.restorableUntil).toBeDefined();
    await patch('living', { lifecycle: null });
    await lifecycle('active');
    expect((await room.monitor('living')).status?.restorableUntil).toBeUndefined();
  });

  it('has its window of maintenance, and none that is over', async () => {
    const at = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    await room.createMonitor('windowed', {
      ...disabled,
      maintenance: { startsAt: at(-1), endsAt: at(1), reason: 'move' },
    });
    await waitFor(async () => (await room.monitor('windowed')).status?.health === 'maintenance', {
      what: 'maintenance',
    });
    await patch('windowed', { maintenance: null });
    await waitFor(async () => (await room.monitor('windowed')).status?.health === 'waiting', {
      what: 'it has ended',
    });
    await room.createMonitor('old', { ...disabled, maintenance: { startsAt: at(-3), endsAt: at(-2) } });
    await room.monitorBecomes('old', 'Ready', 'True');
  });

  it('restores its Secret, and follows an address that was rotated elsewhere', async () => {
    await room.createMonitor('kept', disabled);
    await room.monitorBecomes('kept', 'Ready', 'True');
    const ref = { namespace: room.namespace, name: 'kept-beat' };
    const { body, etag } = await record('kept');
    await room.kube.client.delete(SECRETS, ref);
    await waitFor(async () => (await room.secret('kept-beat'))?.url === body.publishUrl, {
      what: 'the Secret is back',
    });
    await room.told('kept', 'SecretRestored');
    await room.kube.client.mergePatch(SECRETS, ref, {
      data: { url: Buffer.from('wrong').toString('base64') },
    });
    await waitFor(async () => (await room.secret('kept-beat'))?.url === body.publishUrl, {
      what: 'the Secret is right',
    });
    await room.api.expectSuccess('rotatePublishUrl', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
    });
    const rotated = (await record('kept')).body.publishUrl;
    await waitFor(async () => (await room.secret('kept-beat'))?.url === rotated, { what: 'the new address' });
    await room.told('kept', 'SecretRotated');
  });

  it('never overwrites a Secret that is not its own', async () => {
    const data = { url: Buffer.from('theirs').toString('base64') };
    await room.kube.client.create(SECRETS, {
      metadata: { name: 'taken-beat', namespace: room.namespace },
      data,
    });
    await room.createMonitor('taken', disabled);
    await room.monitorBecomes('taken', 'Ready', 'False', 'SecretConflict');
    expect(await room.secret('taken-beat')).toEqual({ url: 'theirs' });
    await room.told('taken', 'Conflict');
    await patch('taken', { publishSecretName: 'other' });
    await room.monitorBecomes('taken', 'Ready', 'True');
    expect((await room.secret('other'))?.url).toContain('/ping/');
  });

  it('is archived by kubectl delete, with its Secret gone', async () => {
    await room.createMonitor('going', disabled);
    const { status } = await room.monitorBecomes('going', 'Ready', 'True');
    expect((await room.kubectl(['delete', 'monitor', 'going', '--timeout=120s'])).code).toBe(0);
    const params = { monitorId: status?.monitorId ?? '' };
    expect((await room.api.expectSuccess('getMonitor', { params })).body.lifecycle).toBe('archived');
    expect(await room.secret('going-beat')).toBeUndefined();
  });

  it('says what the API refuses, in its words, and asks no more until it changes', async () => {
    const callback = { kind: 'inline', url: 'https://10.0.0.1/x' };
    const before = operator.calls.get('createMonitor') ?? 0;
    // As `kubectl apply` marks it: what only kubectl keeps there must not make it another desired state.
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
    await room.createMonitor('refused', { callback }, { annotations });
    const object = await room.monitorBecomes('refused', 'Ready', 'False', 'Refused');
    const ready = object.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready?.message).toContain('service.callback_destination_rejected');
    expect(ready?.message).toContain('callback.url');
    await room.createMonitor('after', disabled);
    await room.monitorBecomes('after', 'Ready', 'True');
    expect(operator.calls.get('createMonitor')).toBe(before + 2);
    await patch('refused', { callback: { kind: 'disabled', url: null } });
    await room.monitorBecomes('refused', 'Ready', 'True');
  });

  it('shows kubectl users its columns, and describes itself', async () => {
    await room.createMonitor('seen', { intervalSeconds: 3600, ...disabled });
    expect((await room.kubectl(['wait', '--for=condition=Ready', 'mon/seen', '--timeout=120s'])).code).toBe(
      0,
    );
    const { stdout } = await room.kubectl(['get', 'mon', 'seen', '-o', 'wide']);
    expect(stdout).toMatch(
      /HEALTH +INTERVAL +LAST BEAT +NEXT DEADLINE +INCIDENT +READY +AGE +MONITOR ID +LIFECYCLE +CALLBACK/,
    );
    expect(stdout).toMatch(/seen +waiting +1h .*True .*mon_[0-9a-f]{32} +active +none/);
    const described = await room.kubectl(['describe', 'mon', 'seen']);
    expect(described.stdout).toContain('Created');
  });
});
