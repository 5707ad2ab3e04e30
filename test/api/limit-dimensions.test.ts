// Each dimension of a limit, as the contract's table has it (docs/contract/organization.md): a call that meets it is refused
// with the status, the code and the remediation that stand there.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { FindPlan } from '../../src/domain/plan.ts';
import { LIMIT_DIMENSIONS, type LimitDimension } from '../../src/domain/problem.ts';
import { reportSlots } from '../../src/store/directory/reservations.ts';
import { beginSumsAt, DAY_MS, daysAgo, insertBeats, sumUpUntil } from '../support/past-beats.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const TINY: Partial<ReturnType<FindPlan>> = {
  activeMonitors: 3,
  minimumIntervalSeconds: 300,
  beatsPerMinute: 1,
  measurementsPerObservation: 1,
  storedObservations: 5,
  observationRetentionSeconds: 2 * 86_400,
  callbackEndpoints: 1,
  detectorFeatures: ['minimum'],
  apiRequestsPerMinute: 5_000,
};
const TABLE =
  /^\| `(\w+)` \| .* \| (\d*) ?\| (?:`([\w.]+)` )?\| (?:`(\w+)` )?(?:\(`(\w+)`: `(\w+)`\) )?\|$/gm;

let fixture: ResidenceFixture;
beforeAll(async () => {
  const plans = { free: TINY, builder: { apiRequestsPerMinute: 1 }, scale: TINY };
  fixture = await openResidenceFixture({ plan: 'free', config: { plans } });
});
afterAll(() => fixture?.close());

interface Refusal {
  status: number;
  code: string;
  detail: string;
  limit?: { dimension: string; remediation: string; plan?: { id: string }; serviceState?: string };
}
type Answer = { problem?: Refusal | undefined };

const create = (more: object = {}): Promise<Answer> =>
  fixture.manage.call('createMonitor', { body: { name: 'Job', intervalSeconds: 300, ...more } as never });
const setOrganization = (column: 'plan' | 'service_state', value: string) =>
  fixture.pool.query(`update organizations set ${column} = $2 where organization_id = $1`, [
    fixture.organizationId,
    value,
  ]);

/** A monitor with a beat each half hour of yesterday, of which the plan stores the newest five. */
async function makeOld(yesterdayMs: number) {
  const { body, etag: ifMatch } = await fixture.manage.expectSuccess('createMonitor', {
    body: { name: 'Old', intervalSeconds: 300 },
  });
  const params = { monitorId: body.monitorId };
  const { rows } = await fixture.pool.query(
    `update monitors set created_at = created_at - interval '9 days' where monitor_id = $1 returning monitor_key`,
    [body.monitorId],
  );
  const ref = { projectId: fixture.projectId, monitorKey: rows[0].monitor_key as string };
  const beats = Array.from({ length: 9 }, (_, index) => ({ atMs: yesterdayMs + index * 1_800_000 }));
  await insertBeats(fixture.pool, ref, beats);
  await fixture.pool.query('update monitor_live set last_sequence = 9 where monitor_key = $1', [
    ref.monitorKey,
  ]);
  return { params, ifMatch, address: `${fixture.url}${new URL(body.publishUrl ?? '').pathname}` };
}
const readSeries = (params: { monitorId: string }, sinceMs: number): Promise<Answer> =>
  fixture.read.call('readSeries', {
    params,
    query: { since: new Date(sinceMs).toISOString(), until: new Date().toISOString(), bucketSeconds: 1_800 },
  });

async function beat(address: string, measurements: object): Promise<Answer> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const answer = await fetch(address, { method: 'POST', headers, body: JSON.stringify({ measurements }) });
  return { problem: answer.ok ? undefined : ((await answer.json()) as Refusal) };
}

/** A creation that is held up for so long that what it has reserved is given up. */
async function createTooLate(): Promise<Answer> {
  const holder = await fixture.eu.connect();
  try {
    await holder.query('begin');
    await holder.query('lock table publish_addresses in share row exclusive mode');
    const creation = create({ jurisdiction: 'eu' });
    await waitFor(async () => (await fixture.pool.query('select from slot_reservations')).rowCount === 1, {
      what: 'a slot is reserved',
    });
    await fixture.pool.query(`update slot_reservations set reserved_at = reserved_at - interval '2 minutes'`);
    await reportSlots(fixture.pool, { jurisdiction: 'eu', pool: fixture.eu });
    await holder.query('commit');
    return await creation;
  } finally {
    holder.release();
  }
}

/** Until the change of the organization has reached the role. */
async function untilRefused(call: () => Promise<Answer>): Promise<Answer> {
  let answer: Answer = {};
  await waitFor(async () => {
    answer = await call();
    return answer.problem !== undefined;
  });
  return answer;
}

it('each dimension is met where the table says, with its status, code and remediation, also on the largest plan', async () => {
  const text = readFileSync('docs/contract/organization.md', 'utf8');
  const section = text.slice(text.indexOf('### Where a limit is met'), text.indexOf('### The catalogue'));
  const rows = [...section.matchAll(TABLE)];
  const told = rows.map(([, dimension, status, code, remediation]) =>
    code === undefined
      ? [dimension, undefined]
      : [dimension, { status: Number(status), code, limit: { dimension, remediation } }],
  );
  expect(told.map(([dimension]) => dimension)).toEqual(LIMIT_DIMENSIONS);

  // Once, since midnight may come.
  const todayMs = daysAgo(0);
  await beginSumsAt(fixture.pool, todayMs - 4 * DAY_MS);
  const { params, ifMatch, address } = await makeOld(todayMs - DAY_MS);
  await sumUpUntil(fixture.pool, todayMs);
  let state = 'canceled';
  const meet: Record<LimitDimension, (() => Promise<Answer>) | undefined> = {
    minimum_interval_seconds: () => create({ intervalSeconds: 60 }),
    detector_feature: () =>
      fixture.manage.call('updateMonitor', {
        ...{ params, ifMatch },
        body: { patch: { measurements: { rows: { maximum: 1 } } } },
      }),
    measurements_per_observation: () => beat(address, { rows: 1, size: 1 }),
    beat_cadence: () => untilRefused(() => beat(address, { rows: 1 })),
    stored_observations: () => readSeries(params, todayMs - DAY_MS),
    observation_retention_seconds: () => readSeries(params, todayMs - 3 * DAY_MS),
    callback_endpoints: async () => {
      const body = { kind: 'webhook', url: 'http://127.0.0.1:9/' } as const;
      return await untilRefused(() =>
        fixture.manage.call('createCallback', { body: { ...body, alias: `a-${randomUUID()}` } }),
      );
    },
    entitlement_lease: createTooLate,
    active_monitors: () => untilRefused(() => create()),
    mcp_requests_per_minute: undefined,
    service_state: async () => {
      await setOrganization('service_state', state);
      // Another refusal than that of the limit of monitors, which is reached.
      return await untilRefused(async () => {
        const { problem } = await create();
        return problem?.limit?.dimension === 'service_state' ? { problem } : {};
      });
    },
    api_requests_per_minute: async () => {
      await setOrganization('service_state', 'active');
      await setOrganization('plan', 'builder');
      return await untilRefused(() => fixture.read.call('listMonitors'));
    },
  };
  const met: unknown[] = [];
  for (const [dimension, call] of Object.entries(meet)) {
    const problem = (await call?.())?.problem;
    const { status, code, limit } = problem ?? {};
    const { remediation } = limit ?? {};
    met.push([dimension, problem && { status, code, limit: { dimension: limit?.dimension, remediation } }]);
  }
  const byName = (rows: unknown[]) => [...rows].sort((a, b) => (String(a) < String(b) ? -1 : 1));
  expect(byName(met)).toEqual(byName(told));

  // On the largest plan, and in the state in which there is something better to do.
  await setOrganization('plan', 'scale');
  state = 'deleting';
  const others = rows.filter(([, , , , , where]) => where !== undefined);
  expect(others.map(([, dimension]) => dimension)).toContain('service_state');
  for (const [, dimension, , , , where, remediation] of others) {
    const { problem } = await waitFor(async () => {
      const answer = await meet[dimension as LimitDimension]?.();
      const { plan, serviceState } = answer?.problem?.limit ?? {};
      return plan?.id === where || serviceState === where ? answer : undefined;
    });
    if (where === 'scale')
      expect(problem?.detail).toMatch(/, or ask whoever runs the installation to change/);
    expect([dimension, where, problem?.limit?.remediation]).toEqual([dimension, where, remediation]);
  }
});
