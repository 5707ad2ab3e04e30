// Monitors that depend on others, from YAML to the API, on a real API server.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findCondition } from '../../src/kube/conditions.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

let fixture: OperatorFixture;
beforeAll(async () => {
  fixture = await openOperatorFixture();
  await fixture.startOperator();
});
afterAll(() => fixture?.close());

const on = (...names: string[]) => ({
  callback: { kind: 'disabled' },
  dependsOn: names.map((name) => ({ name })),
});
const patch = async (name: string, spec: object) =>
  await fixture.kube.client.mergePatch(MONITORS, { name, namespace: fixture.namespace }, { spec });
const idOf = async (name: string) => (await fixture.monitor(name)).status?.monitorId ?? '';
const messageOf = async (name: string) =>
  findCondition((await fixture.monitor(name)).status?.conditions, 'Ready')?.message;

async function dependsOnBecomes(name: string, expected: string[] | undefined): Promise<void> {
  const monitorId = await idOf(name);
  const read = async () =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body.dependsOn;
  await waitFor(async () => isDeepStrictEqual(await read(), expected), {
    what: `${name} depends on ${expected}`,
  });
}

describe('dependsOn of a Monitor', () => {
  it('names Monitors of the namespace, in whatever order they are applied', async () => {
    await fixture.createMonitor('job', on('postgres', 'queue'));
    await fixture.monitorBecomes('job', 'Ready', 'False', 'DependencyNotFound');
    expect(await messageOf('job')).toBe(
      'It depends on postgres, and there is no Monitor of that name in this namespace: create it, or leave it out. It depends on queue, and there is no Monitor of that name in this namespace: create it, or leave it out. The monitor is watched all the same.',
    );
    await fixture.monitorBecomes('job', 'Synced', 'True');
    await fixture.createMonitor('postgres', on());
    await fixture.monitorBecomes('postgres', 'Ready', 'True');
    await dependsOnBecomes('job', [await idOf('postgres')]);
    await fixture.createMonitor('queue', on('postgres'));
    await fixture.monitorBecomes('job', 'Ready', 'True');
    await dependsOnBecomes('job', [await idOf('postgres'), await idOf('queue')]);

    await patch('job', { dependsOn: [{ name: 'queue' }] });
    await dependsOnBecomes('job', [await idOf('queue')]);
    await patch('job', { dependsOn: null });
    await dependsOnBecomes('job', undefined);
  });

  it('loses one that is deleted, and has it again when it is made again', async () => {
    await fixture.createMonitor('disk', on());
    await fixture.createMonitor('backup', on('disk'));
    await fixture.monitorBecomes('backup', 'Ready', 'True');
    const disk = await idOf('disk');
    await dependsOnBecomes('backup', [disk]);
    await fixture.kube.client.delete(MONITORS, { name: 'disk', namespace: fixture.namespace });
    await fixture.monitorBecomes('backup', 'Ready', 'False', 'DependencyNotFound');
    await dependsOnBecomes('backup', undefined);
    const isGone = () =>
      fixture.monitor('disk').then(
        () => false,
        () => true,
      );
    await waitFor(isGone, { what: 'the object is gone' });
    await fixture.createMonitor('disk', on());
    await fixture.monitorBecomes('backup', 'Ready', 'True');
    await dependsOnBecomes('backup', [await idOf('disk')]);
    expect(await idOf('disk')).toBe(disk);
  });

  it('that makes a circle is refused, and all else of the spec is in force', async () => {
    await fixture.createMonitor('egg', on());
    await fixture.createMonitor('hen', on('egg'));
    await fixture.monitorBecomes('hen', 'Ready', 'True');
    await patch('egg', { dependsOn: [{ name: 'hen' }], graceSeconds: 900 });
    await fixture.monitorBecomes('egg', 'Ready', 'False', 'DependencyRefused');
    await fixture.monitorBecomes('egg', 'Synced', 'True');
    expect(await messageOf('egg')).toContain('The monitor would depend on itself');
    const { body } = await fixture.api.expectSuccess('getMonitor', {
      params: { monitorId: await idOf('egg') },
    });
    expect(body.graceSeconds).toBe(900);
    expect(body.dependsOn).toBeUndefined();
    // Another Monitor opens the circle.
    await patch('hen', { dependsOn: null });
    await fixture.monitorBecomes('egg', 'Ready', 'True');
    await dependsOnBecomes('egg', [await idOf('hen')]);
  });

  it('that makes a chain too long leaves a new Monitor with its address, and watched', async () => {
    for (let place = 1; place <= 9; place += 1) {
      await fixture.createMonitor(`link-${place}`, on(...(place === 1 ? [] : [`link-${place - 1}`])));
      if (place < 9) await fixture.monitorBecomes(`link-${place}`, 'Ready', 'True');
    }
    await fixture.monitorBecomes('link-9', 'Ready', 'False', 'DependencyRefused');
    expect(await messageOf('link-9')).toContain('a chain of more than 8 monitors');
    const { status } = await fixture.monitor('link-9');
    expect(status?.publishSecretRef).toEqual({ name: 'link-9-beat' });
    await fixture.kube.client.get(SECRETS, { name: 'link-9-beat', namespace: fixture.namespace });
  });

  it('is put back when it is changed elsewhere', async () => {
    await fixture.createMonitor('cache', on());
    await fixture.createMonitor('web', on('cache'));
    await fixture.monitorBecomes('web', 'Ready', 'True');
    const monitorId = await idOf('web');
    await dependsOnBecomes('web', [await idOf('cache')]);
    const { etag: ifMatch } = await fixture.api.expectSuccess('getMonitor', { params: { monitorId } });
    const body = { patch: { dependsOn: null } };
    await fixture.api.expectSuccess('updateMonitor', { params: { monitorId }, ifMatch, body });
    await fixture.eventAppears('web', 'Drifted');
    await dependsOnBecomes('web', [await idOf('cache')]);
  });
});
