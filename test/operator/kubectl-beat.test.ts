// `kubectl beat` on a real API server with an operator and an api: what each command that reads prints
// (docs/contract/kubernetes.md, "kubectl beat").
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatFixture, openBeatFixture } from './kubectl-beat-fixture.ts';

interface Item {
  name: string;
  health: string;
  because?: string;
  openIncidents: { incidentId: string; kind: string }[];
}

describe.skipIf(!hasCluster)('kubectl beat, what reads', () => {
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

  it('status without a Monitor that is down exits 0', async () => {
    await fixture.createReady('fine');
    const { code, stdout, stderr } = await fixture.beatctl('status');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('1 Monitor: 1 waiting.');
  });

  it('status prints what is down first, with the reason, and exits 1', async () => {
    await fixture.createReady('a-fine');
    await fixture.beat('a-fine-beat');
    await fixture.createDown('z-failing');
    await fixture.healthBecomes('a-fine', 'up');
    const { code, stdout } = await fixture.beatctl('status');
    expect(code).toBe(1);
    const [head, first, second] = stdout.split('\n');
    expect(head).toMatch(/^NAME +HEALTH +LAST BEAT +NEXT DEADLINE +WHY$/);
    expect(first).toMatch(/^z-failing +down .* Down since .*: The job reported a failure\.$/);
    expect(second).toMatch(/^a-fine +up +\d+[smh]\S* +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
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
    await fixture.createReady('worker');
    const { stdout } = await fixture.beatctl('status', '-A');
    expect(stdout).toMatch(new RegExp(`^${fixture.namespace} +worker `, 'm'));
    expect(stdout).toMatch(/^NAMESPACE +NAME /);
  });

  it('explain prints the sentence, the parts of the deadline and what keeps alerts back, as the API says them', async () => {
    const { incidentId } = await fixture.createDown('worker');
    const { status } = await fixture.monitor('worker');
    const params = { monitorId: status?.monitorId ?? '' };
    const { body } = await fixture.api.call('explainMonitor', { params });
    const { code, stdout, stderr } = await fixture.beatctl('explain', 'worker');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(body.because);
    expect(stdout).toMatch(
      /^Deadline .* UTC:\n {2}last_beat .*\n {2}interval .* \+1h .*\n {2}grace .* \+5m /m,
    );
    expect(stdout).toMatch(/^What keeps alerts back:\n {2}binding_disabled /m);
    expect(stdout).toContain(incidentId);
    const json = await fixture.beatJson<object>(['explain', 'worker']);
    expect(json).toMatchObject({ name: 'worker', ...body, at: expect.any(String) });
  });

  it('explain --at answers for that moment', async () => {
    await fixture.createDown('worker');
    const created = Date.parse((await fixture.monitor('worker')).metadata.creationTimestamp ?? '') + 1_000;
    await waitFor(async () => Date.now() > created, { what: 'a second of its life has passed' });
    const now = await fixture.beatJson<{ at: string; health: string }>(['explain', 'worker']);
    const args = ['explain', 'worker', '--at', now.at];
    expect(await fixture.beatJson(args)).toMatchObject({ at: now.at, health: 'down' });
  });

  it('url prints the address of the Secret and nothing else', async () => {
    await fixture.createReady('worker');
    const url = (await fixture.secret('worker-beat'))?.url;
    expect(await fixture.beatctl('url', 'worker')).toEqual({ code: 0, stdout: `${url}\n`, stderr: '' });
    expect(await fixture.beatJson(['url', 'worker'])).toEqual({
      namespace: fixture.namespace,
      name: 'worker',
      url,
    });
  });

  it('url refuses a Secret that belongs to something else', async () => {
    await fixture.createReady('worker');
    await fixture.stopOperator();
    const ref = { namespace: fixture.namespace, name: 'worker-beat' };
    const secrets = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets', namespaced: true };
    await fixture.kube.client.mergePatch(secrets, ref, { metadata: { ownerReferences: null } });
    const { code, stdout, stderr } = await fixture.beatctl('url', 'worker');
    // The operator would leave the Secret alone, as it is nobody's.
    await fixture.kube.client.delete(secrets, ref);
    await fixture.startAgain();
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('holds no publish address of the Monitor worker');
  });
});
