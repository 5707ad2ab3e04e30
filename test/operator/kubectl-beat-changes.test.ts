// `kubectl beat` on a real API server with an operator and an api: what each command that changes something does
// (docs/contract/kubernetes.md, "kubectl beat").
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatFixture, openBeatFixture } from './kubectl-beat-fixture.ts';

describe.skipIf(!hasCluster)('kubectl beat, what changes', () => {
  let fixture: BeatFixture;
  beforeAll(async () => {
    fixture = await openBeatFixture();
  });
  afterEach(async () => {
    await fixture?.clear();
  });
  afterAll(async () => {
    await fixture?.close();
  });

  /** The monitor at the API. */
  async function atApi(name: string): Promise<{ lifecycle: string; status: { maintenance?: object } }> {
    const { status } = await fixture.monitor(name);
    return (await fixture.api.call('getMonitor', { params: { monitorId: status?.monitorId ?? '' } }))
      .body as never;
  }

  it('send sends a beat with its options, and says what became of it', async () => {
    await fixture.createReady('sent', { measurements: { rows: { minimum: 10 } } });
    const accepted = await fixture.beatctl('send', 'sent', '--message', 'hello', '--measurement', 'rows=3');
    expect(accepted).toMatchObject({ code: 0, stderr: '' });
    expect(accepted.stdout).toMatch(
      /^Accepted as beat 1 of sent \(success\) at .*\. The next deadline is .*\.$/m,
    );
    expect(accepted.stdout).toContain('It breaks a rule: rows minimum 10, and it is 3.');
    await fixture.beatctl('send', 'sent', '--start', '--run-id', 'night-1');
    const args = ['send', 'sent', '--exit-status', '3', '--run-id', 'night-1'];
    expect(await fixture.beatJson(args)).toMatchObject({ sequence: 3, status: 'fail' });
    const monitorId = (await fixture.monitor('sent')).status?.monitorId ?? '';
    const { items } = (await fixture.api.call('listObservations', { params: { monitorId } })).body;
    expect(items).toMatchObject([
      { kind: 'fail', exitStatus: 3, runId: 'night-1', durationSeconds: expect.any(Number) },
      { kind: 'start', runId: 'night-1' },
      { kind: 'success', message: 'hello', measurements: { rows: 3 } },
    ]);
  });

  it('pause and resume change spec.lifecycle, and say when there is nothing to change', async () => {
    await fixture.createReady('resting');
    const paused = await fixture.beatctl('pause', 'resting');
    expect(paused).toEqual({ code: 0, stdout: 'monitor.beatkeeper.dev/resting paused\n', stderr: '' });
    expect((await fixture.monitor('resting')).spec.lifecycle).toBe('paused');
    await waitFor(async () => (await atApi('resting')).lifecycle === 'paused', { what: 'the API pauses it' });
    expect((await fixture.beatctl('pause', 'resting')).stdout).toContain('unchanged');
    expect(await fixture.beatJson(['resume', 'resting'])).toMatchObject({
      lifecycle: 'active',
      changed: true,
    });
    await waitFor(async () => (await atApi('resting')).lifecycle === 'active', {
      what: 'the API resumes it',
    });
  });

  it('pause and resume leave alone what the YAML archives', async () => {
    await fixture.createReady('stored', { lifecycle: 'archived' });
    const { code, stderr } = await fixture.beatctl('resume', 'stored');
    expect(code).toBe(2);
    expect(stderr).toContain('archived by its YAML');
    expect((await fixture.monitor('stored')).spec.lifecycle).toBe('archived');
  });

  it('maintenance sets spec.maintenance from now on, a second one replaces it whole, and --end removes it', async () => {
    await fixture.createReady('served');
    const set = await fixture.beatctl('maintenance', 'served', '--for', '2h', '--reason', 'upgrade');
    expect(set.stdout).toMatch(/^monitor\.beatkeeper\.dev\/served in maintenance until .* UTC$/m);
    const { maintenance } = (await fixture.monitor('served')).spec;
    expect(maintenance?.reason).toBe('upgrade');
    expect(Date.parse(maintenance?.endsAt ?? '') - Date.parse(maintenance?.startsAt ?? '')).toBe(7_200_000);
    await fixture.healthBecomes('served', 'maintenance');
    await fixture.beatctl('maintenance', 'served', '--for', '1h');
    expect((await fixture.monitor('served')).spec.maintenance).not.toHaveProperty('reason');
    expect(await fixture.beatJson(['maintenance', 'served', '--end'])).toMatchObject({ maintenance: null });
    expect((await fixture.monitor('served')).spec.maintenance).toBeUndefined();
    await fixture.healthBecomes('served', 'waiting');
    const again = await fixture.beatctl('maintenance', 'served', '--end');
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toContain('has no spec.maintenance to end');
  });

  it('ack acknowledges the open incidents of a Monitor, and one by its id, with the note', async () => {
    const { incidentId } = await fixture.createDown('worker');
    const byName = await fixture.beatctl('ack', 'worker', '--note', 'on it');
    expect(byName).toMatchObject({ code: 0, stderr: '' });
    expect(byName.stdout).toBe(`incident ${incidentId} acknowledged: The job reported a failure.\n`);
    const { body: incident } = await fixture.api.call('getIncident', { params: { incidentId } });
    expect(incident.acknowledgedBy?.id).toBe(`system:serviceaccount:${fixture.namespace}:beatkeeper-member`);
    const byId = await fixture.beatJson<{ items: { incidentId: string }[] }>([
      'ack',
      incidentId,
      '--note',
      'still',
    ]);
    expect(byId.items.map((one) => one.incidentId)).toEqual([incidentId]);
    const { body: timeline } = await fixture.api.call('getIncidentTimeline', { params: { incidentId } });
    const notes = timeline.items.flatMap(({ note }) => note ?? []);
    expect(notes).toEqual(['on it', 'still']);
  });

  it('ack of a Monitor without an incident says so', async () => {
    await fixture.createReady('fine');
    expect((await fixture.beatctl('ack', 'fine')).stdout).toBe('The Monitor fine has no open incident.\n');
  });

  it('replay shows what a Rule would have opened, and changes its rollout only when asked', async () => {
    await fixture.createReady('worker');
    await fixture.createRule('rows', {
      monitorRef: { name: 'worker' },
      measurementKey: 'rows',
      definition: { minimum: 5 },
    });
    await fixture.beatctl('send', 'worker', '--measurement', 'rows=1');
    const refused = await fixture.beatctl('replay', 'rows');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('kubectl beat replay rows --run');
    expect((await fixture.rule('rows')).spec.rollout).toBe('Apply');
    const run = await fixture.beatctl('replay', 'rows', '--run');
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout).toMatch(/^MONITOR +CURRENT +PROPOSED +ADDED +REMOVED +REFUSED\nworker +\d+ +1 /);
    expect(run.stdout).toContain('Replayed 1 of 1 Monitors, from ');
    expect((await fixture.rule('rows')).spec.rollout).toBe('Replay');
    const first = (await fixture.rule('rows')).status?.replay?.request;
    expect(await fixture.beatJson(['replay', 'rows'])).toMatchObject({
      name: 'rows',
      current: true,
      matched: 1,
    });
    expect((await fixture.rule('rows')).status?.replay?.request).toBe(first);
    await fixture.beatctl('replay', 'rows', '--run');
    expect((await fixture.rule('rows')).status?.replay?.request).not.toBe(first);
  });
});
