// `kubectl beat` where somebody has forged the status of a Monitor: no command acts on what is another's. The operator is
// stopped meanwhile, because it would put the status right.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import type { ApiClient } from '../support/api-client.ts';
import { type BeatFixture, openBeatFixture } from './kubectl-beat-fixture.ts';

describe.skipIf(!hasCluster)('kubectl beat with a forged status', () => {
  let fixture: BeatFixture;
  let theirs: ApiClient;
  let projectId: string;
  beforeAll(async () => {
    fixture = await openBeatFixture();
    const { operator, owner, tokens } = fixture.apiFixture;
    const name = `other-${randomUUID().slice(0, 8)}`;
    projectId = (await owner.expectSuccess('createProject', { body: { name } })).body.projectId;
    theirs = operator.as(tokens.operator, name);
  });
  afterEach(async () => {
    await fixture?.startAgain();
    await fixture?.clear();
  });
  afterAll(async () => {
    await fixture?.close();
  });

  /** A monitor with an open incident that no object of the cluster declares. */
  async function createMonitorByHand(api: ApiClient): Promise<{ monitorId: string; incidentId: string }> {
    const monitorId = `by-hand-${randomUUID().slice(0, 8)}`;
    const made = await api.expectSuccess('createMonitor', {
      body: { monitorId, name: 'secret of theirs', callback: { kind: 'disabled' } },
    });
    const { pathname } = new URL(made.body.publishUrl ?? '');
    await fetch(`${fixture.apiFixture.url}${pathname}/fail`);
    const { body } = await api.expectSuccess('listIncidents', { query: { monitorId } });
    return { monitorId, incidentId: body.items[0]?.incidentId ?? '' };
  }

  const listed = (incidentId: string) => ({
    ...{ incidentId, kind: 'reported_failure', state: 'open', severity: 'critical' },
    openedAt: '2026-01-01T00:00:00Z',
  });
  const forge = (name: string, status: object) =>
    fixture.kube.client.mergePatch(
      MONITORS,
      { namespace: fixture.namespace, name },
      { status },
      { subresource: 'status' },
    );
  const acknowledgedBy = async (api: ApiClient, incidentId: string) =>
    (await api.expectSuccess('getIncident', { params: { incidentId } })).body.acknowledgedBy;

  it('explain and ack of a Monitor refuse the monitor of another project', async () => {
    const { monitorId, incidentId } = await createMonitorByHand(theirs);
    await fixture.createReady('forger');
    await fixture.stopOperator();
    await forge('forger', { projectId, monitorId, openIncidents: [listed(incidentId)] });
    for (const args of [
      ['explain', 'forger', '-o', 'json'],
      ['ack', 'forger'],
    ]) {
      const { code, stdout, stderr } = await fixture.beatctl(...args);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(
        `The status of the Monitor forger names the monitor ${monitorId}, which the API has for no object`,
      );
      expect(stderr).not.toContain('secret of theirs');
    }
    expect(await acknowledgedBy(theirs, incidentId)).toBeUndefined();
  });

  it('explain and ack of a Monitor refuse the monitor of another Monitor, and name that', async () => {
    const { incidentId } = await fixture.createDown('worker');
    const { status } = await fixture.monitor('worker');
    await fixture.createReady('forger');
    await fixture.stopOperator();
    await forge('forger', { monitorId: status?.monitorId, openIncidents: [listed(incidentId)] });
    for (const command of ['explain', 'ack']) {
      const { code, stderr } = await fixture.beatctl(command, 'forger');
      expect(code).toBe(2);
      expect(stderr).toContain(`which the API has for the Monitor ${fixture.namespace}/worker`);
    }
    expect(await acknowledgedBy(fixture.api, incidentId)).toBeUndefined();
  });

  it('ack of a Monitor acknowledges what the API has open, not what the status lists', async () => {
    const { incidentId: own } = await fixture.createDown('worker');
    const { incidentId: another } = await createMonitorByHand(fixture.api);
    await fixture.stopOperator();
    await forge('worker', { openIncidents: [listed(another)] });
    const { stdout } = await fixture.beatctl('ack', 'worker');
    expect(stdout).toBe(`incident ${own} acknowledged: The job reported a failure.\n`);
    expect(await acknowledgedBy(fixture.api, another)).toBeUndefined();
  });

  it('ack of an incident refuses one of another project that a status lists', async () => {
    const { monitorId, incidentId } = await createMonitorByHand(theirs);
    await fixture.createReady('forger');
    await fixture.stopOperator();
    await forge('forger', { projectId, monitorId, openIncidents: [listed(incidentId)] });
    const { code, stderr } = await fixture.beatctl('ack', incidentId, '-A');
    expect(code).toBe(2);
    expect(stderr).toContain(`is of the monitor ${monitorId}, which no Monitor declares`);
    expect(await acknowledgedBy(theirs, incidentId)).toBeUndefined();
  });

  it('ack of an incident that several statuses list asks for the Monitor, and takes the right one', async () => {
    const { incidentId } = await fixture.createDown('worker');
    await fixture.createReady('forger');
    await fixture.stopOperator();
    await forge('forger', { openIncidents: [listed(incidentId)] });
    const { code, stderr } = await fixture.beatctl('ack', incidentId);
    expect(code).toBe(2);
    expect(stderr).toContain('The statuses of several Monitors list the incident');
    expect((await fixture.beatctl('ack', 'worker')).code).toBe(0);
  });

  it('ack of an incident that no status lists takes those of the namespace, and refuses others', async () => {
    const { incidentId } = await fixture.createDown('worker');
    const { incidentId: another } = await createMonitorByHand(fixture.api);
    await fixture.stopOperator();
    await forge('worker', { openIncidents: null });
    expect(await fixture.beatctl('ack', incidentId)).toMatchObject({ code: 0, stderr: '' });
    const refused = await fixture.beatctl('ack', another);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('which no Monitor declares: acknowledge it through the API.');
  });

  it('explain and ack take a monitor that the Monitor took over', async () => {
    const { monitorId, incidentId } = await createMonitorByHand(fixture.api);
    const annotations = { 'beatkeeper.dev/monitor-id': monitorId };
    await fixture.createReady('heir', {}, { annotations });
    await fixture.healthBecomes('heir', 'down');
    const explained = await fixture.beatctl('explain', 'heir');
    expect(explained, explained.stderr).toMatchObject({ code: 0 });
    const { stdout } = await fixture.beatctl('ack', 'heir');
    expect(stdout).toContain(`incident ${incidentId} acknowledged`);
  });
});
