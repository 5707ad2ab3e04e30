// A project that an owner renames while namespaces of the cluster name it (docs/contract/kubernetes.md, "Identity").
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  type OperatorFixture,
  type OperatorOptions,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('a project that is renamed', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  let projectId: string;
  let monitorId: string;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const archiving: OperatorOptions = { resyncMs: 300, orphans: 'Archive', orphanArchiveAfterMs: 0 };
  const inProject = (token: string) => fixture.apiFixture.owner.as(token, projectId);
  const rename = async (name: string) => {
    const owner = inProject(fixture.apiFixture.tokens.owner);
    const { etag } = await owner.expectSuccess('getProject', { params: { projectId } });
    await owner.expectSuccess('updateProject', { params: { projectId }, body: { name }, ifMatch: etag });
  };
  const record = async () => {
    const operatorOf = inProject(fixture.apiFixture.tokens.operator);
    return (await operatorOf.expectSuccess('getMonitor', { params: { monitorId } })).body;
  };
  const listings = async () => {
    const reads = () => operator.calls.get('getStatusFeed') ?? 0;
    const before = reads();
    await waitFor(() => reads() >= before + 6, { what: 'the feed was listed again' });
  };
  const keepsTheMonitor = async () => {
    await listings();
    const found = await record();
    expect(found).toMatchObject({ lifecycle: 'active', configurationVersion: 1 });
    expect(found.origin?.orphanedAt).toBeUndefined();
    expect(await metricValue(operator.registry, 'beatkeeper_monitors_orphaned', {})).toBe(0);
    const { status } = await fixture.monitor('job');
    expect(status).toMatchObject({ projectId, monitorId });
  };

  beforeEach(async () => {
    operator = await fixture.startOperator(archiving);
    if (projectId !== undefined) return;
    await fixture.createMonitor('job', disabled);
    const { status } = await fixture.monitorBecomes('job', 'Ready', 'True');
    projectId = String(status?.projectId);
    monitorId = String(status?.monitorId);
    await fixture.createMonitor('other', disabled);
    await fixture.monitorBecomes('other', 'Ready', 'True');
  });
  afterEach(() => operator.stop());

  it('keeps its namespaces, and no monitor is orphaned or ended: not at once, and not after a start', async () => {
    await rename(`Renamed ${fixture.namespace}`);
    await keepsTheMonitor();
    await operator.stop();
    operator = await fixture.startOperator(archiving);
    await fixture.createMonitor('later', disabled);
    const { status } = await fixture.monitorBecomes('later', 'Ready', 'True');
    expect(status?.projectId).toBe(projectId);
    await keepsTheMonitor();
    const { body } = await inProject(fixture.apiFixture.tokens.operator).expectSuccess('listProjects');
    expect(body.items.map(({ name }) => name)).not.toContain(fixture.namespace);
  });

  it('has its namespaces by the names that the list of shared projects allows for its new name', async () => {
    await rename(`Renamed again ${fixture.namespace}`);
    await operator.stop();
    operator = await fixture.startOperator({
      ...archiving,
      sharedProjects: [{ project: 'another', namespaces: ['another'] }],
    });
    await fixture.createMonitor('refused', disabled);
    const { status } = await fixture.monitorBecomes('refused', 'Ready', 'False', 'ProjectNotAllowed');
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready?.message).toContain(`Renamed again ${fixture.namespace}`);
    await keepsTheMonitor();
  });

  it('loses its namespaces to another project that has the former name now', async () => {
    const owner = inProject(fixture.apiFixture.tokens.owner);
    const { body } = await owner.expectSuccess('createProject', { body: { name: fixture.namespace } });
    await operator.stop();
    operator = await fixture.startOperator(archiving);
    await waitFor(async () => (await fixture.monitor('job')).status?.projectId === body.projectId, {
      what: 'the Monitor has moved',
    });
  });
});
