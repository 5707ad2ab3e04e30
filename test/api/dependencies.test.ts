// Monitors that depend on others, over HTTP (docs/contract/incidents.md, "Dependencies").
// Holds: createMonitor, getMonitor, updateMonitor, getIncident, listIncidents, listIncidentDeliveries, explainMonitor.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeAddressed, makeMonitor } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(() => api?.close());

const make = async (...dependsOn: string[]) => await makeAddressed(api, { dependsOn });
const read = async (monitorId: string) =>
  (await api.read.expectSuccess('getMonitor', { params: { monitorId } })).body;

/** The refusal of a patch, in its fields. */
async function refused(monitorId: string, dependsOn: unknown) {
  const params = { monitorId };
  const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params });
  const { status, body } = await api.manage.call('updateMonitor', {
    params,
    ifMatch,
    body: { patch: { dependsOn } },
  });
  return { status, body };
}

describe('dependsOn', () => {
  it('is stated at creation, changed, and removed by null and by an empty list', async () => {
    const [one, two] = [await make(), await make()];
    const { params, patch } = await make(one.params.monitorId);
    const { monitorId } = params;
    expect((await read(monitorId)).dependsOn).toEqual([one.params.monitorId]);
    const both = [two.params.monitorId, one.params.monitorId];
    await patch({ dependsOn: both });
    expect((await read(monitorId)).dependsOn).toEqual(both);
    await patch({ dependsOn: [] });
    expect((await read(monitorId)).dependsOn).toBeUndefined();
    await patch({ dependsOn: both });
    await patch({ dependsOn: null });
    expect(await read(monitorId)).not.toHaveProperty('dependsOn');
  });

  it('names monitors of the project and the jurisdiction alone', async () => {
    const { params } = await make();
    const missing = `mon_${randomUUID()}`;
    expect(await refused(params.monitorId, [missing])).toMatchObject({
      status: 400,
      body: {
        fieldErrors: [
          {
            code: 'not_found',
            path: 'patch.dependsOn.0',
            message: `The project has no monitor ${missing} in the jurisdiction unrestricted: create it first, or leave it out.`,
          },
        ],
      },
    });
    const european = await makeAddressed(api, { jurisdiction: 'eu' });
    expect(await refused(params.monitorId, [european.params.monitorId])).toMatchObject({
      status: 400,
      body: { fieldErrors: [{ code: 'not_found' }] },
    });
    const created = await api.manage.call('createMonitor', { body: { name: 'Job', dependsOn: [missing] } });
    expect(created).toMatchObject({
      status: 400,
      body: { fieldErrors: [{ code: 'not_found', path: 'dependsOn.0' }] },
    });
  });

  it('is refused where it makes a circle, be it of one', async () => {
    const first = await make();
    const second = await make(first.params.monitorId);
    const third = await make(second.params.monitorId);
    for (const last of [first, second, third]) {
      expect(await refused(first.params.monitorId, [last.params.monitorId])).toMatchObject({
        status: 400,
        body: { fieldErrors: [{ code: 'circular', path: 'patch.dependsOn' }] },
      });
    }
  });

  it('is refused where a chain gets more than eight monitors, wherever the new link is', async () => {
    const chain = async (length: number) => {
      const made = [await make()];
      while (made.length < length) made.push(await make(made.at(-1)?.params.monitorId ?? ''));
      return made.map(({ params }) => params.monitorId);
    };
    const eight = await chain(8);
    expect(
      await api.manage.call('createMonitor', { body: { name: 'Ninth', dependsOn: [eight[7]] } }),
    ).toMatchObject({ status: 400, body: { fieldErrors: [{ code: 'chain_too_long', path: 'dependsOn' }] } });
    const [four, five] = [await chain(4), await chain(5)];
    expect(await refused(four[0] ?? '', [five[4]])).toMatchObject({
      status: 400,
      body: { fieldErrors: [{ code: 'chain_too_long', path: 'patch.dependsOn' }] },
    });
    expect((await refused(four[0] ?? '', [five[3]])).status).toBe(200);
  });

  it('has at most sixteen names, each once', async () => {
    const { params } = await make();
    const others = await Promise.all(Array.from({ length: 17 }, () => make()));
    const ids = others.map((other) => other.params.monitorId);
    expect((await refused(params.monitorId, ids)).status).toBe(400);
    expect(await refused(params.monitorId, [ids[0], ids[1], ids[0]])).toMatchObject({
      status: 400,
      body: { fieldErrors: [{ code: 'not_unique', path: 'patch.dependsOn.2' }] },
    });
    expect((await refused(params.monitorId, ids.slice(1))).status).toBe(200);
  });

  it('changes at once by many callers make no circle', async () => {
    for (let round = 0; round < 5; round += 1) {
      const made = await Promise.all([make(), make(), make()]);
      const ids = made.map(({ params }) => params.monitorId);
      const answers = await Promise.all(
        ids.map((monitorId, place) => refused(monitorId, [ids[(place + 1) % ids.length]])),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 400]);
    }
  });

  it('keeps the name of a monitor that is deleted, and any other change is taken', async () => {
    const cause = await make();
    const { params, patch } = await make(cause.params.monitorId);
    const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params: cause.params });
    await api.manage.expectSuccess('deleteMonitor', { params: cause.params, ifMatch });
    await patch({ graceSeconds: 900 });
    expect(await read(params.monitorId)).toMatchObject({
      graceSeconds: 900,
      dependsOn: [cause.params.monitorId],
    });
  });
});

describe('the incident of a monitor that depends on another', () => {
  it('is held and not yet told of, which explain says', async () => {
    const cause = await makeMonitor(api);
    const child = await makeMonitor(api, { dependsOn: [cause.monitorId] });
    const incidentId = await child.fail();
    const params = { incidentId };
    expect((await api.read.expectSuccess('getIncident', { params })).body).not.toHaveProperty('suppressedBy');
    expect((await api.read.expectSuccess('listIncidentDeliveries', { params })).body.items).toEqual([]);
    const explained = await api.read.expectSuccess('explainMonitor', {
      params: { monitorId: child.monitorId },
    });
    expect(explained.body.silence).toMatchObject([
      {
        reason: 'dependency',
        note: `The alert of ${incidentId} waits to see whether a monitor that this one depends on is down.`,
      },
    ]);
  });

  it('shows its cause, and the cause counts what it suppresses', async () => {
    const cause = await makeMonitor(api);
    const child = await makeMonitor(api, { dependsOn: [cause.monitorId] });
    const causeId = await cause.fail();
    const incidentId = await child.fail();
    // What the sweeper writes after thirty seconds.
    const by = { monitorId: cause.monitorId, incidentId: causeId };
    await api.pool.query(
      'update incidents set held_until = null, suppressed_by = $2 where incident_id = $1',
      [incidentId, JSON.stringify(by)],
    );
    expect(
      (await api.read.expectSuccess('getIncident', { params: { incidentId } })).body.suppressedBy,
    ).toEqual(by);
    expect(
      (await api.read.expectSuccess('getIncident', { params: { incidentId: causeId } })).body.suppresses,
    ).toBe(1);
    const { items } = (await api.read.expectSuccess('listIncidents', { query: { limit: 200 } })).body;
    expect(items.find((one) => one.incidentId === causeId)?.suppresses).toBe(1);
    expect(items.find((one) => one.incidentId === incidentId)?.suppressedBy).toEqual(by);
  });
});
