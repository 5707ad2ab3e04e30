// `kubectl beat` on a real API server with an operator and an api: what each command prints and changes
// (docs/contract/kubernetes.md, "kubectl beat").
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { RULES } from '../../src/operator/kinds/rule/rule-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatFixture, KUBECTL_BEAT, openBeatFixture } from './kubectl-beat-fixture.ts';

interface Item {
  name: string;
  health: string;
  because?: string;
  openIncidents: { incidentId: string; kind: string }[];
}

const SPEC = { intervalSeconds: 3_600, callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('kubectl beat', () => {
  let fixture: BeatFixture;
  beforeAll(async () => {
    fixture = await openBeatFixture();
  });
  afterAll(async () => {
    await fixture?.close();
  });

  async function createReady(name: string, spec: object = {}): Promise<void> {
    await fixture.createMonitor(name, { ...SPEC, ...spec });
    await fixture.monitorBecomes(name, 'Ready', 'True');
  }
  const healthBecomes = (name: string, health: string) =>
    waitFor(async () => (await fixture.monitor(name)).status?.health === health, {
      what: `${name} is ${health}`,
    });
  /** The monitor at the API. */
  async function atApi(name: string): Promise<{ lifecycle: string; status: { maintenance?: object } }> {
    const { status } = await fixture.monitor(name);
    return (await fixture.api.call('getMonitor', { params: { monitorId: status?.monitorId ?? '' } }))
      .body as never;
  }

  it('status prints what is down first, with the reason, and exits 1; without one it exits 0', async () => {
    await createReady('a-fine');
    await createReady('z-failing');
    const before = await fixture.beatctl('status');
    expect(before).toMatchObject({ code: 0, stderr: '' });
    expect(before.stdout).toContain('2 Monitors: 2 waiting.');
    await fixture.beat('a-fine-beat');
    await fixture.beat('z-failing-beat', '/fail');
    await healthBecomes('a-fine', 'up');
    await healthBecomes('z-failing', 'down');
    const { code, stdout } = await fixture.beatctl('status');
    expect(code).toBe(1);
    const [head, first, second] = stdout.split('\n');
    expect(head).toMatch(/^NAME +HEALTH +LAST BEAT +NEXT DEADLINE +WHY$/);
    expect(first).toMatch(/^z-failing +down .* Down since .*: The job reported a failure\.$/);
    expect(second).toMatch(/^a-fine +up +\d+s +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    expect(stdout).toContain('2 Monitors: 1 down, 1 up.');
    const { items } = await fixture.beatJson<{ items: Item[] }>(['status'], 1);
    expect(items.map(({ name, health }) => ({ name, health }))).toEqual([
      { name: 'z-failing', health: 'down' },
      { name: 'a-fine', health: 'up' },
    ]);
    expect(items[0]?.openIncidents[0]).toMatchObject({ kind: 'reported_failure' });
    expect(items[0]?.because).toContain('The job reported a failure.');
  });

  it('status -A has the namespace of each Monitor', async () => {
    const { stdout } = await fixture.beatctl('status', '-A');
    expect(stdout).toMatch(new RegExp(`^${fixture.namespace} +z-failing `, 'm'));
    expect(stdout).toMatch(/^NAMESPACE +NAME /);
  });

  it('explain prints the sentence, the parts of the deadline and what keeps alerts back, as the API says them', async () => {
    const { status } = await fixture.monitor('z-failing');
    const params = { monitorId: status?.monitorId ?? '' };
    const { body } = await fixture.api.call('explainMonitor', { params });
    const { code, stdout, stderr } = await fixture.beatctl('explain', 'z-failing');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(body.because);
    expect(stdout).toMatch(
      /^Deadline .* UTC:\n {2}last_beat .*\n {2}interval .* \+1h .*\n {2}grace .* \+5m /m,
    );
    expect(stdout).toMatch(/^What keeps alerts back:\n {2}binding_disabled /m);
    expect(stdout).toContain(status?.openIncidents?.[0]?.incidentId);
    const json = await fixture.beatJson<object>(['explain', 'z-failing']);
    expect(json).toMatchObject({ name: 'z-failing', ...body, at: expect.any(String) });
  });

  it('explain --at answers for that moment', async () => {
    const created = Date.parse((await fixture.monitor('z-failing')).metadata.creationTimestamp ?? '') + 1_000;
    await waitFor(async () => Date.now() > created, { what: 'a second of its life has passed' });
    const now = await fixture.beatJson<{ at: string; health: string }>(['explain', 'z-failing']);
    const then = await fixture.beatJson<{ at: string; health: string }>([
      'explain',
      'z-failing',
      '--at',
      now.at,
    ]);
    expect(then).toMatchObject({ at: now.at, health: 'down' });
  });

  it('url prints the address of the Secret and nothing else', async () => {
    const url = (await fixture.secret('a-fine-beat'))?.url;
    expect(await fixture.beatctl('url', 'a-fine')).toEqual({ code: 0, stdout: `${url}\n`, stderr: '' });
    expect(await fixture.beatJson(['url', 'a-fine'])).toEqual({
      namespace: fixture.namespace,
      name: 'a-fine',
      url,
    });
  });

  it('url refuses a Secret that belongs to something else', async () => {
    const ref = { namespace: fixture.namespace, name: 'a-fine-beat' };
    const secrets = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets', namespaced: true };
    const { ownerReferences } = (await fixture.kube.client.get(secrets, ref)).metadata;
    await fixture.kube.client.mergePatch(secrets, ref, { metadata: { ownerReferences: null } });
    const { code, stdout, stderr } = await fixture.beatctl('url', 'a-fine');
    await fixture.kube.client.mergePatch(secrets, ref, { metadata: { ownerReferences } });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('holds no publish address of the Monitor a-fine');
  });

  it('send sends a beat with its options, and says what became of it', async () => {
    await createReady('sent', { measurements: { rows: { minimum: 10 } } });
    const accepted = await fixture.beatctl('send', 'sent', '--message', 'hello', '--measurement', 'rows=3');
    expect(accepted).toMatchObject({ code: 0, stderr: '' });
    expect(accepted.stdout).toMatch(
      /^Accepted as beat 1 of sent \(success\) at .*\. The next deadline is .*\.$/m,
    );
    expect(accepted.stdout).toContain('It breaks a rule: rows minimum 10, and it is 3.');
    await fixture.beatctl('send', 'sent', '--start', '--run-id', 'night-1');
    const failed = await fixture.beatJson<{ sequence: number; status: string }>([
      'send',
      'sent',
      '--exit-status',
      '3',
      '--run-id',
      'night-1',
    ]);
    expect(failed).toMatchObject({ sequence: 3, status: 'fail' });
    const monitorId = (await fixture.monitor('sent')).status?.monitorId ?? '';
    const { items } = (await fixture.api.call('listObservations', { params: { monitorId } })).body;
    expect(items).toMatchObject([
      { kind: 'fail', exitStatus: 3, runId: 'night-1', durationSeconds: expect.any(Number) },
      { kind: 'start', runId: 'night-1' },
      { kind: 'success', message: 'hello', measurements: { rows: 3 } },
    ]);
  });

  it('pause and resume change spec.lifecycle, and say when there is nothing to change', async () => {
    await createReady('resting');
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
    await createReady('stored', { lifecycle: 'archived' });
    const { code, stderr } = await fixture.beatctl('resume', 'stored');
    expect(code).toBe(2);
    expect(stderr).toContain('archived by its YAML');
    expect((await fixture.monitor('stored')).spec.lifecycle).toBe('archived');
  });

  it('maintenance sets spec.maintenance from now on, a second one replaces it whole, and --end removes it', async () => {
    await createReady('served');
    const set = await fixture.beatctl('maintenance', 'served', '--for', '2h', '--reason', 'upgrade');
    expect(set.stdout).toMatch(/^monitor\.beatkeeper\.dev\/served in maintenance until .* UTC$/m);
    const { maintenance } = (await fixture.monitor('served')).spec;
    expect(maintenance?.reason).toBe('upgrade');
    expect(Date.parse(maintenance?.endsAt ?? '') - Date.parse(maintenance?.startsAt ?? '')).toBe(7_200_000);
    await healthBecomes('served', 'maintenance');
    await fixture.beatctl('maintenance', 'served', '--for', '1h');
    expect((await fixture.monitor('served')).spec.maintenance).not.toHaveProperty('reason');
    expect(await fixture.beatJson(['maintenance', 'served', '--end'])).toMatchObject({ maintenance: null });
    expect((await fixture.monitor('served')).spec.maintenance).toBeUndefined();
    await healthBecomes('served', 'waiting');
    const again = await fixture.beatctl('maintenance', 'served', '--end');
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toContain('has no spec.maintenance to end');
  });

  it('ack acknowledges the open incidents of a Monitor, and one by its id, with the note', async () => {
    const incidentId = (await fixture.monitor('z-failing')).status?.openIncidents?.[0]?.incidentId ?? '';
    const byName = await fixture.beatctl('ack', 'z-failing', '--note', 'on it');
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
    expect((await fixture.beatctl('ack', 'a-fine')).stdout).toBe(
      'The Monitor a-fine has no open incident.\n',
    );
  });

  it('replay shows what a Rule would have opened, and changes its rollout only when asked', async () => {
    await fixture.createRule('rows', {
      monitorRef: { name: 'a-fine' },
      measurementKey: 'rows',
      definition: { minimum: 5 },
    });
    await fixture.beatctl('send', 'a-fine', '--measurement', 'rows=1');
    const refused = await fixture.beatctl('replay', 'rows');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('kubectl beat replay rows --run');
    expect((await fixture.rule('rows')).spec.rollout).toBe('Apply');
    const run = await fixture.beatctl('replay', 'rows', '--run');
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout).toMatch(/^MONITOR +CURRENT +PROPOSED +ADDED +REMOVED +REFUSED\na-fine +\d+ +1 /);
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
    await fixture.kube.client.delete(RULES, { namespace: fixture.namespace, name: 'rows' });
  });

  it('dashboard prints an address with a token that the API takes, and ends with Ctrl-C', async () => {
    const args = [KUBECTL_BEAT, 'dashboard', '-n', fixture.namespace, '--kubeconfig', fixture.kubeconfig];
    const child = spawn(process.execPath, args, { env: { PATH: process.env.PATH, HOME: fixture.folder } });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    const [address = '', token = ''] = line.split('/sign-in#token=');
    expect(address).toBe(fixture.trustingUrl);
    const answer = await fetch(`${address}/v1/monitors`, {
      headers: { authorization: `Bearer ${token}`, 'service-project': fixture.namespace },
    });
    expect(answer.status).toBe(200);
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it('no command but url and dashboard has printed a publish address or a token', async () => {
    const urls = ['a-fine', 'z-failing', 'sent'].map(
      async (name) => (await fixture.secret(`${name}-beat`))?.url,
    );
    const ids = (await Promise.all(urls)).map((url) => url?.split('/ping/')[1] ?? '');
    expect(ids.every((id) => /^[0-9a-f-]{36}$/.test(id))).toBe(true);
    expect(fixture.printed.length).toBeGreaterThan(50);
    const text = fixture.printed.join('\n');
    for (const secret of [...ids, '/ping/', 'eyJ']) expect(text).not.toContain(secret);
  });
});
