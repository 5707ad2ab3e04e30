// The Secrets follow the public address of the installation (docs/contract/kubernetes.md, "Secrets").
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const OLD = 'http://beats.example.com';
const NEW = 'https://beats.example.com/team';

describe.skipIf(!hasCluster)('an installation that gets another public address', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const urlOf = async (monitor: string) => (await fixture.secret(`${monitor}-beat`))?.url ?? '';
  const nextUrl = (monitor: string, base: string) =>
    waitFor(
      async () => {
        const url = await urlOf(monitor);
        return url.startsWith(`${base}/ping/`) ? url : undefined;
      },
      { what: `the Secret of ${monitor} begins with ${base}` },
    );

  it('each Secret gets the same publish address with the new beginning, without a change of its monitor', async () => {
    const { apiFixture } = fixture;
    const before = await apiFixture.startReplica({ publicUrl: OLD });
    // Neither a resync nor a change of the monitor shows it: those come later than the test lasts.
    const operator = await fixture.startOperator({ apiUrl: before.url, resyncMs: 3_600_000 });
    for (const name of ['one', 'two']) await fixture.createMonitor(name, { callback: { kind: 'disabled' } });
    for (const name of ['one', 'two']) await fixture.monitorBecomes(name, 'Ready', 'True');
    const [one, two] = [await nextUrl('one', OLD), await nextUrl('two', OLD)];
    const versions = async () =>
      (await apiFixture.pool.query('select configuration_version from monitors order by monitor_id')).rows;
    const unchanged = await versions();
    await before.close();
    const after = await apiFixture.startReplica({ publicUrl: NEW, port: before.port });
    expect(await nextUrl('one', NEW)).toBe(one.replace(OLD, NEW));
    expect(await nextUrl('two', NEW)).toBe(two.replace(OLD, NEW));
    expect((await fixture.eventAppears('one', 'SecretRotated')).note).toMatch(/another public address/);
    expect(await versions()).toEqual(unchanged);
    await operator.stop();
    await after.close();
  });

  it('it is found by an operator that was not there at the change, and costs no read of a monitor afterwards', async () => {
    const { apiFixture } = fixture;
    const resyncMs = 1_000;
    const replica = await apiFixture.startReplica({ publicUrl: OLD });
    const operator = await fixture.startOperator({ apiUrl: replica.url, resyncMs });
    await nextUrl('one', OLD);
    await nextUrl('two', OLD);
    const reads = () => operator.calls.get('getMonitor') ?? 0;
    const listings = () => operator.calls.get('getStatusFeed') ?? 0;
    const [readBefore, listedBefore] = [reads(), listings()];
    // Each listing is about a resync.
    await waitFor(() => listings() >= listedBefore + 5, { what: 'some resyncs' });
    expect(reads()).toBe(readBefore);
    await operator.stop();
    await replica.close();
  });
});
