// Which operator beats a monitor, and its signs of life: who may say so, and what it does (docs/contract/monitors.md).
// Holds: setMonitorBeatenBy, clearMonitorBeatenBy, signOperator.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const newOperator = () => `beatkeeper/release@${randomUUID()}`;
const HOUR_MS = 3_600_000;

/** Its clock runs from its creation. */
async function create(more: object = {}) {
  const body = { name: 'Job', intervalSeconds: 3600, awaitFirstBeat: false, ...more };
  return (await api.manage.expectSuccess('createMonitor', { body })).body;
}
const read = async (monitorId: string, client = api.read) =>
  (await client.expectSuccess('getMonitor', { params: { monitorId } })).body;
const set = (monitorId: string, operatorId: string | null, client = api.operator) =>
  client.call('setMonitorBeatenBy', { params: { monitorId }, body: { operatorId } });
const clear = (monitorId: string, client = api.manage) =>
  client.call('clearMonitorBeatenBy', { params: { monitorId } });
const sign = (operatorId: string, client: ApiClient = api.operator) =>
  client.call('signOperator', { params: { operatorId }, body: {} });

/** At noon in UTC. */
function lastSundayOfMarch(year: number): Date {
  const last = new Date(Date.UTC(year, 2, 31, 12));
  return new Date(last.getTime() - last.getUTCDay() * 24 * HOUR_MS);
}

/** As if the last sign had been so long ago. */
async function beSilent(operatorId: string, forMs: number) {
  await api.pool.query('update operator_signs set seen_ms = seen_ms - $2 where operator_id = $1', [
    operatorId,
    forMs,
  ]);
}
async function outagesOf(operatorId: string) {
  const { rows } = await api.pool.query(
    `select organization_id, (to_ms - from_ms)::float8 as ms from operator_outages where operator_id = $1 order by to_ms`,
    [operatorId],
  );
  return rows;
}

describe('who beats a monitor', () => {
  it('is set by the operator, shown to all, and no change of the configuration', async () => {
    const { monitorId, updatedAt } = await create();
    const operatorId = newOperator();
    const answer = await set(monitorId, operatorId);
    expect(answer).toMatchObject({ status: 200, etag: '"configuration-1"' });
    expect(answer.body).toMatchObject({ beatenBy: operatorId, configurationVersion: 1, updatedAt });
    for (const client of [api.read, api.viewer, api.member, api.owner, api.operator]) {
      expect((await read(monitorId, client)).beatenBy).toBe(operatorId);
    }
    const { items } = (await api.viewer.expectSuccess('listMonitors', { query: { limit: 200 } })).body;
    expect(items.find((one) => one.monitorId === monitorId)?.beatenBy).toBe(operatorId);
    const feedItem = async () => {
      const query = { limit: 200, waitSeconds: 0 };
      const { body } = await api.operator.expectSuccess('getStatusFeed', { query });
      return body.items.find((one) => one.monitorId === monitorId);
    };
    expect((await feedItem())?.beatenBy).toBe(operatorId);
    const changes = await api.read.expectSuccess('listMonitorChanges', { params: { monitorId } });
    expect(changes.body.items).toHaveLength(1);
    expect((await set(monitorId, null)).body).not.toHaveProperty('beatenBy');
    expect(await read(monitorId)).toMatchObject({ configurationVersion: 1 });
    expect(await feedItem()).not.toHaveProperty('beatenBy');
  });

  it('set again by itself changes nothing, and twice at once is set once', async () => {
    const { monitorId } = await create();
    const operatorId = newOperator();
    const answers = await Promise.all(Array.from({ length: 6 }, () => set(monitorId, operatorId)));
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200));
    const changedOf = async () =>
      (
        await api.pool.query(
          'select l.changed_xid from monitor_live l join monitors m using (monitor_key) where m.monitor_id = $1',
          [monitorId],
        )
      ).rows[0].changed_xid;
    const before = await changedOf();
    await set(monitorId, operatorId);
    expect(await changedOf()).toBe(before);
  });

  it('is set by nobody but the operator', async () => {
    const { monitorId } = await create();
    for (const client of [api.viewer, api.member, api.owner, api.read, api.manage]) {
      for (const operatorId of [newOperator(), null]) {
        const { problem } = await set(monitorId, operatorId, client);
        expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
      }
    }
    for (const client of [api.viewer, api.read]) expect((await clear(monitorId, client)).status).toBe(403);
    expect(await read(monitorId)).not.toHaveProperty('beatenBy');
  });

  it('of a monitor that the caller may not see is 404', async () => {
    const { monitorId } = await create();
    for (const client of [api.other.manage, api.other.owner]) {
      expect((await set(monitorId, newOperator(), client)).status).toBe(404);
      expect((await clear(monitorId, client)).status).toBe(404);
    }
    expect((await set('none', newOperator())).status).toBe(404);
    expect((await clear('none')).status).toBe(404);
  });

  it.each([
    ['missing', undefined, 'required'],
    ['too long', `a${'b'.repeat(256)}`, 'too_long'],
    ['with a blank', 'a b', 'invalid_format'],
    ['no text', 7, 'invalid_type'],
  ])('an operatorId that is %s is refused with its path', async (_what, operatorId, code) => {
    const { monitorId } = await create();
    const request = { params: { monitorId }, body: { operatorId } };
    const { problem } = await api.operator.call('setMonitorBeatenBy', request);
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'operatorId', code }] });
  });

  it('cannot be stated at creation or patched; the refusal of the patch says how it is cleared', async () => {
    const { monitorId } = await create();
    const made = await api.operator.call('createMonitor', { body: { name: 'Job', beatenBy: newOperator() } });
    expect(made.problem?.fieldErrors).toMatchObject([{ path: 'beatenBy', code: 'unknown_field' }]);
    const { problem } = await api.operator.call('updateMonitor', {
      params: { monitorId },
      body: { patch: { beatenBy: null } },
      ifMatch: '"configuration-1"',
    });
    expect(problem?.fieldErrors).toMatchObject([
      {
        path: 'patch.beatenBy',
        message: expect.stringContaining('DELETE /v1/monitors/{monitorId}/beaten-by'),
      },
    ]);
  });

  it('a monitor that is taken from an operator that lives keeps its clock', async () => {
    const { monitorId, status } = await create();
    await set(monitorId, newOperator());
    const { body } = await clear(monitorId);
    expect(body.status.nextDeadlineAt).toBe(status.nextDeadlineAt);
    expect(body).not.toHaveProperty('beatenBy');
    expect((await clear(monitorId)).body).toEqual({ ...body, status: expect.anything() });
  });

  it('a run that Kubernetes skips where clocks go forward is expected of a job that beats itself alone', async () => {
    // The last Sunday of March, at half past two.
    const year = new Date().getUTCFullYear();
    const isPast = Date.now() > lastSundayOfMarch(year).getTime() - 24 * HOUR_MS;
    const gap = lastSundayOfMarch(isPast ? year + 1 : year);
    const schedule = { cron: `30 2 ${gap.getUTCDate()} 3 *`, timeZone: 'Europe/Berlin' };
    const { monitorId, status } = await create({ intervalSeconds: undefined, schedule });
    const yearOf = (at = '') => new Date(at).getUTCFullYear();
    expect(yearOf(status.nextDeadlineAt)).toBe(gap.getUTCFullYear());
    const beaten = await set(monitorId, newOperator());
    expect(yearOf(beaten.body.status.nextDeadlineAt)).toBeGreaterThan(gap.getUTCFullYear());
    const explained = await api.read.expectSuccess('explainMonitor', { params: { monitorId } });
    expect(explained.body.deadline?.at).toBe(beaten.body.status.nextDeadlineAt);
    expect((await clear(monitorId)).body.status.nextDeadlineAt).toBe(status.nextDeadlineAt);
  });

  it.each([
    ['silent', async () => undefined],
    ['back after a silence', sign],
  ])('a monitor that leaves an operator that is %s gets a full interval and grace', async (_what, come) => {
    const ids = [await create(), await create()].map(({ monitorId }) => monitorId);
    const operatorId = newOperator();
    for (const monitorId of ids) await set(monitorId, operatorId);
    // Everything about them was three hours ago.
    await api.pool.query(
      `update monitor_live l set anchor_ms = anchor_ms - $2, deadline_ms = deadline_ms - $2 from monitors m
       where m.monitor_key = l.monitor_key and m.monitor_id = any ($1)`,
      [ids, 3 * HOUR_MS],
    );
    await beSilent(operatorId, HOUR_MS);
    await come(operatorId);
    const before = Date.now();
    const [one = '', other = ''] = ids;
    for (const answer of [await clear(one, api.member), await set(other, newOperator())]) {
      const next = Date.parse(answer.body.status.nextDeadlineAt ?? '');
      // The clocks of the test and the database may differ.
      expect(next - before).toBeGreaterThan(1.05 * HOUR_MS);
    }
  });
});

describe('a sign of life', () => {
  it('is answered without a body, also without one sent, and shows no outage while signs come', async () => {
    const operatorId = newOperator();
    for (const body of [{}, undefined]) {
      const answer = await api.operator.call('signOperator', { params: { operatorId }, body });
      expect([answer.status, answer.body]).toEqual([204, undefined]);
    }
    await beSilent(operatorId, 19_000);
    expect((await sign(operatorId)).status).toBe(204);
    expect(await outagesOf(operatorId)).toEqual([]);
  });

  it('after more than 20 s of silence writes the outage, once however many signs come at once', async () => {
    const operatorId = newOperator();
    await sign(operatorId);
    for (const silence of [60_000, HOUR_MS]) {
      await beSilent(operatorId, silence);
      await Promise.all(Array.from({ length: 8 }, () => sign(operatorId)));
    }
    const outages = await outagesOf(operatorId);
    expect(outages).toHaveLength(2);
    expect(outages[0].ms).toBeGreaterThanOrEqual(60_000);
    expect(outages[1].ms).toBeGreaterThanOrEqual(HOUR_MS);
    await sign(operatorId);
    expect(await outagesOf(operatorId)).toHaveLength(2);
  });

  it('that leaves monitors out is told since when they are not judged, and takes at most 200 of them', async () => {
    const { monitorId } = await create();
    const operatorId = newOperator();
    await set(monitorId, operatorId);
    const { projectId } = await read(monitorId);
    const signWith = (behind: { projectId: string; monitorId?: string }[]) =>
      api.operator.call('signOperator', { params: { operatorId }, body: { behind } });
    expect((await signWith([{ projectId, monitorId }])).status).toBe(204);
    // Half an hour later the others are still signed for.
    await api.pool.query(
      `update operator_signs set behind = jsonb_build_object($2::text, seen_ms - $3::bigint) where operator_id = $1`,
      [operatorId, `${projectId} ${monitorId}`, HOUR_MS / 2],
    );
    expect((await signWith([{ projectId, monitorId }])).status).toBe(204);
    const explained = await api.read.expectSuccess('explainMonitor', { params: { monitorId } });
    expect(explained.body.because).toMatch(/No operator has reported since .*: not judged\.$/);
    expect((await signWith([])).status).toBe(204);
    const after = await api.read.expectSuccess('explainMonitor', { params: { monitorId } });
    expect(after.body.because).not.toContain('No operator');
    const { problem } = await signWith(Array.from({ length: 201 }, () => ({ projectId })));
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'behind', code: 'too_many' }] });
  });

  it('is given by nobody but the operator', async () => {
    const operatorId = newOperator();
    const others = [
      api.viewer,
      api.member,
      api.owner,
      api.read,
      api.manage,
      api.other.manage,
      api.other.owner,
    ];
    for (const client of others) {
      const { problem } = await sign(operatorId, client);
      expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
    }
    const { rows } = await api.pool.query('select * from operator_signs where operator_id = $1', [
      operatorId,
    ]);
    expect(rows).toEqual([]);
  });

  it('of an operator of the same name in another organization is no sign of this one', async () => {
    const operatorId = newOperator();
    await sign(operatorId);
    await beSilent(operatorId, HOUR_MS);
    const claims = { role: 'operator', org: 'umbrella', name: 'operator of umbrella' };
    const token = await api.issuer.sign({ subject: 'operator@umbrella', claims });
    const foreign = api.anonymous.as(token, api.other.projectId);
    await sign(operatorId, foreign);
    const seen = async (organizationId: string) =>
      (
        await api.pool.query(
          `select extract(epoch from clock_timestamp()) * 1000 - seen_ms > 1000000 as is_old from operator_signs
           where operator_id = $1 and organization_id = $2`,
          [operatorId, organizationId],
        )
      ).rows;
    expect(await seen(api.organizationId)).toEqual([{ is_old: true }]);
    expect(await seen(api.other.organizationId)).toEqual([{ is_old: false }]);
    await sign(operatorId);
    expect(await outagesOf(operatorId)).toMatchObject([{ organization_id: api.organizationId }]);
  });

  it('of a name that no operator can have is 404 for the others, and refused to the operator', async () => {
    expect((await sign('no good')).problem).toMatchObject({
      ...{ status: 400, code: 'service.validation_failed' },
      fieldErrors: [{ path: 'operatorId', code: 'invalid_format' }],
    });
    expect((await sign('no good', api.owner)).status).toBe(404);
  });
});
