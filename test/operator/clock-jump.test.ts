// The clock of the operator's machine jumps, by days and back: what counts is the time of the API. The operator is a process
// of its own, so that the clocks of the API and of the cluster are right.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

const DAY_MS = 86_400_000;
const CLOCK = fileURLToPath(new URL('../support/jumping-clock.ts', import.meta.url));
const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an operator whose clock jumps', () => {
  let fixture: OperatorFixture;
  let operator: OperatorProcess;
  let clockFile: string;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    clockFile = join(fixture.tokenFile, '..', 'clock');
    operator = await startOperatorProcess(fixture, { JUMPING_CLOCK: clockFile }, ['--import', CLOCK]);
    await waitFor(operator.isLeading, { what: 'it leads' });
  });
  afterAll(async () => {
    await operator.close();
    await fixture.close();
  });

  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  /** Resolves when the clock of the operator is ahead by as much: its log says so. */
  async function jump(aheadMs: number): Promise<void> {
    await writeFile(clockFile, String(aheadMs));
    operator.signal('SIGUSR2');
    const name = `clock-${aheadMs}-${crypto.randomUUID().slice(0, 8)}`;
    await fixture.createMonitor(name, disabled);
    const { status } = await fixture.monitorBecomes(name, 'Ready', 'True');
    // The times of conditions are the operator's.
    const at = Date.parse(status?.conditions?.find(({ type }) => type === 'Ready')?.lastTransitionTime ?? '');
    expect(Math.abs(at - Date.now() - aheadMs)).toBeLessThan(DAY_MS / 4);
  }
  const secretVersion = async (name: string) => (await fixture.secret(`${name}-signing`))?.version;
  const rotations = () => operator.api.forwarded.filter(({ path }) => path.endsWith('/rotate')).length;
  /** A pass over the Callback that is over. */
  async function passes(name: string, urlEnd: string): Promise<void> {
    await fixture.kube.client.mergePatch(CALLBACKS, ref(name), {
      spec: { url: `http://127.0.0.1:9/${urlEnd}` },
    });
    await fixture.callbackBecomes(name, 'Synced', 'True');
  }

  it('a signing secret is rotated by its age at the API, and neither early nor again and again', async () => {
    await fixture.createCallback('aging', { rotation: { every: '1d' } });
    await fixture.callbackBecomes('aging', 'Ready', 'True');
    await jump(3 * DAY_MS);
    for (const end of ['a', 'b', 'c']) await passes('aging', end);
    expect(await secretVersion('aging')).toBe('1');
    await jump(-3 * DAY_MS);
    // Two days old: due, whatever this machine thinks.
    await fixture.apiFixture.pool.query(
      `update signing_secrets set issued_at = issued_at - interval '2 days' where endpoint_id = $1`,
      [(await fixture.callback('aging')).status?.endpointId],
    );
    await passes('aging', 'd');
    await waitFor(async () => (await secretVersion('aging')) === '2', { what: 'the secret is rotated' });
    await jump(0);
    await passes('aging', 'e');
    expect([await secretVersion('aging'), rotations()]).toEqual(['2', 1]);
  });

  it('a maintenance window is entered in its time and not left before, wherever the clock is', async () => {
    await fixture.createMonitor('watched', { intervalSeconds: 300, ...disabled });
    const { status } = await fixture.monitorBecomes('watched', 'Ready', 'True');
    const record = async () => {
      const params = { monitorId: status?.monitorId ?? '' };
      return (await fixture.api.expectSuccess('getMonitor', { params })).body;
    };
    await jump(2 * DAY_MS);
    const at = (ms: number) => new Date(Date.now() + ms).toISOString();
    const maintenance = { startsAt: at(-60_000), endsAt: at(DAY_MS / 2) };
    await fixture.kube.client.mergePatch(MONITORS, ref('watched'), { spec: { maintenance } });
    await waitFor(async () => (await record()).maintenance !== undefined, {
      what: 'the maintenance has begun',
    });
    await fixture.kube.client.mergePatch(MONITORS, ref('watched'), { spec: { graceSeconds: 333 } });
    await waitFor(async () => (await record()).graceSeconds === 333, { what: 'the change has arrived' });
    expect((await record()).maintenance).toBeDefined();
    await jump(0);
  });

  it('the leader keeps its Lease, beats reach the status, and Events are counted on, forward and back', async () => {
    await fixture.createMonitor('steady', { intervalSeconds: 300, graceSeconds: 120, ...disabled });
    const { status } = await fixture.monitorBecomes('steady', 'Ready', 'True');
    const health = (wanted: string) =>
      waitFor(async () => (await fixture.monitor('steady')).status?.health === wanted, {
        what: `it is ${wanted}`,
      });
    const drift = async (graceSeconds: number) => {
      const params = { monitorId: status?.monitorId ?? '' };
      const { etag } = await fixture.api.expectSuccess('getMonitor', { params });
      await fixture.api.expectSuccess('updateMonitor', {
        params,
        ifMatch: etag,
        body: { patch: { graceSeconds } },
      });
      const isBack = async () =>
        (await fixture.api.expectSuccess('getMonitor', { params })).body.graceSeconds === 120;
      await waitFor(isBack, { what: 'it is put back' });
    };
    const counted = (count: number) =>
      waitFor(
        async () => {
          const events = await fixture.events('steady');
          return (
            events
              .filter(({ reason }) => reason === 'Drifted')
              .reduce((sum, { deprecatedCount: n }) => sum + (n ?? 1), 0) >= count
          );
        },
        { what: `${count} repeats are counted` },
      );
    await fixture.beat('steady-beat');
    await health('up');
    await drift(201);
    for (const [turn, aheadMs] of [30 * DAY_MS, -30 * DAY_MS, 0].entries()) {
      await jump(aheadMs);
      await fixture.beat('steady-beat', '/fail');
      await health('down');
      await fixture.beat('steady-beat');
      await health('up');
      await drift(202 + turn);
      await counted(2 + turn);
    }
    expect(operator.said('Became the leader.')).toHaveLength(1);
    expect(operator.said('Lost the leadership.')).toEqual([]);
    expect(await operator.isLeading()).toBe(true);
    const { rows } = await fixture.apiFixture.pool.query(
      'select from monitors group by name having count(*) > 1',
    );
    expect(rows).toEqual([]);
    expect(operator.lines.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
  });
});
