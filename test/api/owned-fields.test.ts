// What the origin of a monitor keeps of the objects of its name: the fields that they have set
// (docs/contract/monitors.md, "Origin").
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { madeAgain, newOrigin, originCalls } from './origin-fixture.ts';

let api: ApiFixture;
let calls: ReturnType<typeof originCalls>;
beforeAll(async () => {
  api = await openApiFixture();
  calls = originCalls(api);
});
afterAll(async () => {
  await api?.close();
});

describe('the owned fields of an origin', () => {
  it('grow without a new version, a record or another deadline', async () => {
    const origin = { ...newOrigin(), ownedFields: ['name'] };
    const { monitorId } = await calls.create({ origin, awaitFirstBeat: false });
    const before = await calls.read(monitorId);
    const more = { ...origin, ownedFields: ['labels.example.com/team', 'measurements.rows.minimum', 'name'] };
    const { body, etag } = await calls.setOrigin(monitorId, more);
    expect(etag).toBe('"configuration-1"');
    expect(body).toEqual({ ...before, origin: more, latestObservation: undefined });
    expect((await calls.read(monitorId)).origin).toEqual(more);
    const changes = await api.read.expectSuccess('listMonitorChanges', { params: { monitorId } });
    expect(changes.body.items).toHaveLength(1);
  });

  it('stay where a call states none, also for an object that was made again', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin: { ...origin, ownedFields: ['name'] } });
    for (const stated of [origin, madeAgain(origin)]) {
      const { body } = await calls.setOrigin(monitorId, stated);
      expect(body.origin).toEqual({ ...stated, ownedFields: ['name'] });
    }
  });

  it('go with the origin: neither another object nor a later one of the name has them', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin: { ...origin, ownedFields: ['name'] } });
    const other = newOrigin();
    expect((await calls.setOrigin(monitorId, other)).body.origin).toEqual(other);
    await calls.setOrigin(monitorId, { ...other, ownedFields: ['name'] });
    await calls.setOrigin(monitorId, null);
    expect((await calls.setOrigin(monitorId, other)).body.origin).toEqual(other);
  });

  it('survive that the object is reported as gone, and seen again', async () => {
    const origin = { ...newOrigin(), ownedFields: ['name'] };
    const { monitorId } = await calls.create({ origin });
    await calls.report({ orphaned: [monitorId] });
    expect((await calls.read(monitorId)).origin).toMatchObject(origin);
    const more = { ...origin, ownedFields: ['callback', 'name'] };
    expect((await calls.setOrigin(monitorId, more)).body.origin).toEqual(more);
  });

  it.each([
    ['too many', Array.from({ length: 201 }, (_, index) => `labels.l${index}`), 'origin.ownedFields'],
    ['one that is too long', ['n'.repeat(325)], 'origin.ownedFields.0'],
    ['one with a blank', ['a b'], 'origin.ownedFields.0'],
  ])('are refused with %s', async (_, ownedFields, path) => {
    const body = { name: 'Job', origin: { ...newOrigin(), ownedFields } };
    const { problem } = await api.operator.call('createMonitor', { body });
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path }] });
  });
});

it('an end of a monitor that was decided before another object took it over is refused', async () => {
  const origin = newOrigin();
  const { monitorId } = await calls.create({ origin });
  const params = { monitorId };
  const { etag: ifMatch } = await api.operator.expectSuccess('getMonitor', { params });
  await calls.setOrigin(monitorId, madeAgain(origin));
  const body = { action: 'archive' };
  const archive = await api.operator.call('changeMonitorLifecycle', { params, body, ifMatch });
  const deletion = await api.operator.call('deleteMonitor', { params, ifMatch });
  expect([archive.status, deletion.status]).toEqual([412, 412]);
  expect((await calls.read(monitorId)).lifecycle).toBe('active');
});
