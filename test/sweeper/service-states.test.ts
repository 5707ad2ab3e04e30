// Service states that end by themselves: the sweeper ends them, once, whatever events come at the same time.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { BillingEvent, SubscriptionFacts } from '../../src/domain/billing.ts';
import { DAY_MS } from '../../src/domain/retention.ts';
import { applyBillingEvent } from '../../src/service/billing/apply-event.ts';
import { inTransaction, readNow } from '../../src/store/postgres/transaction.ts';
import type { JobDeps } from '../../src/sweeper/upkeep/job.ts';
import { listJobs } from '../../src/sweeper/upkeep/periodic-jobs.ts';
import { sweepRetention } from '../../src/sweeper/upkeep/sweep-retention.ts';
import { sweepServiceStates } from '../../src/sweeper/upkeep/sweep-service-states.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedProject } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;
let lines: string[] = [];
beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

const makeDeps = (): JobDeps => {
  const log = createLog(
    { role: 'sweeper', level: 'info' },
    { write: (line: string) => void lines.push(line) },
  );
  return { pool: fixture.pool, slowPool: fixture.pool, ...makeParts(), log };
};
const sweep = () => sweepServiceStates(makeDeps());

function say(
  organizationId: string,
  status: SubscriptionFacts['status'],
  saidMs: number,
  more: Partial<SubscriptionFacts> = {},
) {
  const eventId = `evt_${crypto.randomUUID()}`;
  const subscription = {
    subscriptionId: `sub_${organizationId}`,
    organizationId,
    status,
    cancelAtPeriodEnd: false,
    ...more,
  };
  const event: BillingEvent = {
    ...{ eventId, type: 'customer.subscription.updated', kind: 'subscription' },
    ...{ saidMs, saidStep: 1, subscription },
  };
  return inTransaction(fixture.pool, (tx) => applyBillingEvent(tx, event));
}

const stateOf = async (organizationId: string) =>
  (
    await fixture.pool.query(
      'select service_state, grace_ends_at, state_due_at, plan from organizations where organization_id = $1',
      [organizationId],
    )
  ).rows[0];

/** Moves what is known of an organization into the past: as if so many days had gone by. */
async function passDays(organizationId: string, days: number): Promise<void> {
  const ago = `make_interval(days => ${days})`;
  await fixture.pool.query(
    `update billing_subscriptions set lapsed_at = lapsed_at - ${ago}, said_at = said_at - ${ago} where organization_id = $1`,
    [organizationId],
  );
  await fixture.pool.query(
    `update organizations set state_due_at = state_due_at - ${ago}, grace_ends_at = grace_ends_at - ${ago} where organization_id = $1`,
    [organizationId],
  );
}

it('a grace ends after 14 days, what it canceled is deleting 30 days later, and each has an audit line', async () => {
  const { organizationId } = fixture.project;
  // The clock of Postgres may be a little behind.
  await say(organizationId, 'past_due', Date.now() - 60_000);
  await sweep();
  expect(await stateOf(organizationId)).toMatchObject({ service_state: 'payment_grace' });
  await passDays(organizationId, 13);
  await sweep();
  expect(await stateOf(organizationId)).toMatchObject({ service_state: 'payment_grace' });
  lines = [];
  await passDays(organizationId, 1);
  expect(await sweep()).toBe('idle');
  expect(await stateOf(organizationId)).toMatchObject({ service_state: 'canceled', grace_ends_at: null });
  await passDays(organizationId, 29);
  await sweep();
  expect(await stateOf(organizationId)).toMatchObject({ service_state: 'canceled' });
  await passDays(organizationId, 1);
  await sweep();
  await sweep();
  expect(await stateOf(organizationId)).toMatchObject({
    service_state: 'deleting',
    grace_ends_at: null,
    state_due_at: null,
  });
  const changes = lines.map((line) => JSON.parse(line).audit).map(({ action, change }) => [action, change]);
  const change = (from: string, to: string) => [
    'organization.change_state',
    { from, to, cause: `the time of ${from} is over` },
  ];
  expect(changes).toEqual([change('payment_grace', 'canceled'), change('canceled', 'deleting')]);
  await say(organizationId, 'active', Date.now());
  expect(await stateOf(organizationId)).toMatchObject({ service_state: 'active', state_due_at: null });
});

it('a payment notes the return, and its end the suspension, also where the database has no triggers', async () => {
  const { organizationId } = await seedProject(fixture.pool);
  const noted = async (column: 'returned_at' | 'suspended_at') =>
    (
      await fixture.pool.query(`select ${column} as at from organizations where organization_id = $1`, [
        organizationId,
      ])
    ).rows[0].at as Date | null;
  const returned = () => noted('returned_at');
  await fixture.pool.query('alter table organizations disable trigger note_service');
  try {
    const fromMs = await readNow(fixture.pool);
    await say(organizationId, 'canceled', fromMs - 2_000);
    expect(await returned()).toBeNull();
    expect((await noted('suspended_at'))?.getTime()).toBeGreaterThanOrEqual(fromMs);
    await say(organizationId, 'active', fromMs - 1_000);
    const at = (await returned())?.getTime() ?? 0;
    expect(at).toBeGreaterThanOrEqual(fromMs);
    expect(await noted('suspended_at')).toBeNull();
    await say(organizationId, 'past_due', fromMs);
    expect((await returned())?.getTime()).toBe(at);
  } finally {
    await fixture.pool.query('alter table organizations enable trigger note_service');
  }
});

it('no state ends by itself where plans and states come from the values', () => {
  const names = (source: 'static' | 'stripe') => listJobs(source).map(({ name }) => name);
  expect(names('stripe')).toContain('service_states');
  expect(names('static')).toEqual(names('stripe').filter((name) => name !== 'service_states'));
});

it('a plan that migrate makes due is again what is paid for, and a grace by hand lasts until its end', async () => {
  const { organizationId } = await seedProject(fixture.pool);
  const set = (assignments: string) =>
    fixture.pool.query(`update organizations set ${assignments} where organization_id = $1`, [
      organizationId,
    ]);
  await say(organizationId, 'active', Date.now() - DAY_MS, { plan: 'smart' });
  await set("plan = 'free', state_due_at = clock_timestamp()");
  await sweep();
  expect(await stateOf(organizationId)).toMatchObject({ plan: 'smart', state_due_at: null });
  const end = '2100-01-01T00:00:00.000Z';
  await set(
    `service_state = 'payment_grace', grace_ends_at = '${end}', state_due_at = '${end}', grace_is_given = true`,
  );
  await say(organizationId, 'canceled', Date.now() - 60_000);
  expect(await stateOf(organizationId)).toMatchObject({
    service_state: 'payment_grace',
    grace_ends_at: new Date(end),
    state_due_at: new Date(end),
  });
  await set('grace_ends_at = clock_timestamp(), state_due_at = clock_timestamp()');
  await sweep();
  expect(await stateOf(organizationId)).toMatchObject({ service_state: 'canceled', grace_ends_at: null });
});

it('a database that goes away ends the step, and is no fault of one organization after the other', async () => {
  const { organizationId } = await seedProject(fixture.pool);
  await say(organizationId, 'past_due', Date.now() - 15 * DAY_MS);
  await fixture.pool.query(
    'update organizations set state_due_at = clock_timestamp() where organization_id = $1',
    [organizationId],
  );
  lines = [];
  const deps = makeDeps();
  const connect = () => Promise.reject(Object.assign(new Error('no'), { code: 'ECONNREFUSED' }));
  const away = new Proxy(fixture.pool, {
    get: (pool, name) => (name === 'connect' ? connect : Reflect.get(pool, name).bind(pool)),
  });
  await expect(sweepServiceStates({ ...deps, pool: away })).rejects.toThrow('no');
  expect(lines).toEqual([]);
});

it('a payment that comes when the grace ends wins, whichever of sweeper and event is first, and many sweepers do no harm', async () => {
  const organizations = await Promise.all(Array.from({ length: 20 }, () => seedProject(fixture.pool)));
  for (const { organizationId } of organizations) {
    await say(organizationId, 'past_due', Date.now() - DAY_MS);
    await passDays(organizationId, 13);
  }
  await Promise.all([
    sweep(),
    sweep(),
    ...organizations.map(({ organizationId }) => say(organizationId, 'active', Date.now())),
    sweep(),
  ]);
  for (const { organizationId } of organizations)
    expect(await stateOf(organizationId)).toMatchObject({ service_state: 'active', state_due_at: null });
});

it('an organization whose state cannot be ended does not hold up the others', async () => {
  const [broken, other] = [await seedProject(fixture.pool), await seedProject(fixture.pool)];
  for (const { organizationId } of [broken, other]) {
    await say(organizationId, 'past_due', Date.now() - DAY_MS);
    await passDays(organizationId, 13);
  }
  await fixture.pool.query(`
    create function refuse() returns trigger language plpgsql as 'begin raise exception ''no''; end';
    create trigger refuse before update on organizations for each row
      when (new.organization_id = '${broken.organizationId}') execute function refuse()`);
  await sweep();
  expect(await stateOf(broken.organizationId)).toMatchObject({ service_state: 'payment_grace' });
  expect(await stateOf(other.organizationId)).toMatchObject({ service_state: 'canceled' });
  await fixture.pool.query('drop trigger refuse on organizations');
  await sweep();
  expect(await stateOf(broken.organizationId)).toMatchObject({ service_state: 'canceled' });
});

it('ids of events are kept for 60 days, charges and disputes for 600', async () => {
  await fixture.pool.query(`
    delete from billing_events;
    insert into billing_events (event_id, received_at)
      select 'evt_' || days, clock_timestamp() - make_interval(days => days) from unnest(array[59, 61]) days;
    insert into billing_charges (charge_id, customer_id, received_at)
      select 'ch_' || days, 'cus_1', clock_timestamp() - make_interval(days => days) from unnest(array[599, 601]) days;
    insert into billing_disputes (dispute_id, charge_id, outcome, said_at, said_step)
      select 'dp_' || days, 'ch_1', 'won', clock_timestamp() - make_interval(days => days), 1 from unnest(array[599, 601]) days`);
  await sweepRetention(makeDeps());
  const { rows } = await fixture.pool.query(
    `select event_id as id from billing_events union all select charge_id from billing_charges
     union all select dispute_id from billing_disputes order by id`,
  );
  expect(rows.map(({ id }) => id)).toEqual(['ch_599', 'dp_599', 'evt_59']);
});
