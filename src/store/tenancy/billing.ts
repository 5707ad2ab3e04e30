// billing_subscriptions, billing_charges, billing_disputes, billing_events: what events of the billing provider have
// said, one row for each thing (docs/contract/organization.md). Writers hold `lockBilling`, so no row needs a lock of its
// own; they lock the organization's row last (organization-standing.ts).
import type { Charge, DisputeFacts, Said, Subscription } from '../../domain/billing.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import type { Queryable } from '../postgres/pool.ts';

/** Another number than that of migrate.ts. */
const LOCK_KEY = 7_215_301;

const SAID = {
  saidMs: column.moment('said_at'),
  saidStep: column.plain<Said['saidStep']>('said_step', 'smallint'),
};

const SUBSCRIPTION: Columns<Subscription> = {
  subscriptionId: column.quoted('subscription_id', 'text'),
  organizationId: column.plain('organization_id', 'uuid'),
  customerId: column.quoted('customer_id', 'text'),
  status: column.plain('status', 'text'),
  plan: column.plain('plan', 'text'),
  cancelAtPeriodEnd: column.plain('cancel_at_period_end', 'boolean'),
  currentPeriodEndMs: column.moment('current_period_end'),
  trialEndsMs: column.moment('trial_ends_at'),
  lapsedMs: column.moment('lapsed_at'),
  turns: column.json('turns'),
  ...SAID,
};
const SUBSCRIPTION_COLUMNS = sql.select(SUBSCRIPTION, 's');
const toSubscription = rowReader(SUBSCRIPTION);

export interface KnownDispute extends DisputeFacts, Said {
  /** A lost one has suspended its organizations. */
  isSettled: boolean;
}

const DISPUTE: Columns<KnownDispute> = {
  disputeId: column.quoted('dispute_id', 'text'),
  chargeId: column.quoted('charge_id', 'text'),
  outcome: column.plain('outcome', 'text'),
  isSettled: column.plain('is_settled', 'boolean'),
  ...SAID,
};
const DISPUTE_COLUMNS = sql.select(DISPUTE, 'd');
const toDispute = rowReader(DISPUTE);

/** The organizations that a charge is about: the one that it names, else those that its customer pays for. */
const payersOf = (chargeId: string) => `(
  select c.organization_id from billing_charges c
  where c.charge_id = ${chargeId} and c.organization_id is not null
  union
  select s.organization_id from billing_charges c
    join billing_subscriptions s on s.customer_id = c.customer_id
  where c.charge_id = ${chargeId} and c.organization_id is null)`;

/** One event or transition at a time, over all replicas, until the end of the transaction: they are few. */
export async function lockBilling(tx: Queryable): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [LOCK_KEY]);
}

/** False: it was applied before. */
export async function insertBillingEvent(tx: Queryable, eventId: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    'insert into billing_events (event_id) values ($1) on conflict (event_id) do nothing',
    [eventId],
  );
  return rowCount === 1;
}

export async function findSubscription(
  tx: Queryable,
  subscriptionId: string,
): Promise<Subscription | undefined> {
  const { rows } = await tx.query(
    `select ${SUBSCRIPTION_COLUMNS} from billing_subscriptions s where s.subscription_id = $1`,
    [subscriptionId],
  );
  return rows.map(toSubscription)[0];
}

/** All that an organization has or had. */
export async function listSubscriptions(db: Queryable, organizationId: string): Promise<Subscription[]> {
  const { rows } = await db.query(
    `select ${SUBSCRIPTION_COLUMNS} from billing_subscriptions s where s.organization_id = $1`,
    [organizationId],
  );
  return rows.map(toSubscription);
}

const PUT_SUBSCRIPTION = statement(
  'put-subscription',
  (bind: Bind<Subscription>) => `insert into billing_subscriptions (${sql.names(SUBSCRIPTION)})
    values (${sql.parameters(SUBSCRIPTION, bind, (subscription) => subscription)})
    on conflict (subscription_id) do update set (${sql.names(SUBSCRIPTION)}) = (${excluded(SUBSCRIPTION)})`,
);

export async function putSubscription(tx: Queryable, subscription: Subscription): Promise<void> {
  await tx.query(PUT_SUBSCRIPTION(subscription));
}

/** A charge is said once, and stays as it is. */
export async function insertCharge(tx: Queryable, charge: Charge): Promise<void> {
  await tx.query(
    `insert into billing_charges (charge_id, customer_id, organization_id) values ($1, $2, $3)
     on conflict (charge_id) do nothing`,
    [charge.chargeId, charge.customerId, charge.organizationId],
  );
}

export async function findDispute(tx: Queryable, disputeId: string): Promise<KnownDispute | undefined> {
  const { rows } = await tx.query(
    `select ${DISPUTE_COLUMNS} from billing_disputes d where d.dispute_id = $1`,
    [disputeId],
  );
  return rows.map(toDispute)[0];
}

const PUT_DISPUTE = statement(
  'put-dispute',
  (bind: Bind<KnownDispute>) => `insert into billing_disputes (${sql.names(DISPUTE)})
    values (${sql.parameters(DISPUTE, bind, (dispute) => dispute)})
    on conflict (dispute_id) do update set (${sql.names(DISPUTE)}) = (${excluded(DISPUTE)})`,
);

export async function putDispute(tx: Queryable, dispute: KnownDispute): Promise<void> {
  await tx.query(PUT_DISPUTE(dispute));
}

function excluded<Row>(columns: Columns<Row>): string {
  return sql.names(columns).replaceAll(/\w+/g, 'excluded.$&');
}

/** In no order. */
export async function findPayers(tx: Queryable, chargeId: string): Promise<string[]> {
  const { rows } = await tx.query<{ organizationId: string }>(
    `select p.organization_id as "organizationId" from ${payersOf('$1')} p`,
    [chargeId],
  );
  return rows.map(({ organizationId }) => organizationId);
}

/**
 * The organizations of lost disputes that have suspended nobody yet, which they do from now on. A dispute whose charge or
 * subscription is not known yet waits for it (index billing_disputes_unsettled).
 */
export async function settleLostDisputes(tx: Queryable): Promise<string[]> {
  const { rows } = await tx.query<{ organizationId: string }>(
    `with lost as (
       select d.dispute_id, p.organization_id
       from billing_disputes d cross join lateral ${payersOf('d.charge_id')} p
       where d.outcome = 'lost' and not d.is_settled),
     settled as (
       update billing_disputes d set is_settled = true from lost where lost.dispute_id = d.dispute_id)
     select distinct organization_id as "organizationId" from lost`,
  );
  return rows.map(({ organizationId }) => organizationId);
}

/** How the disputes about an organization stand: as `payersOf` sees them, from the other side. */
export async function listDisputeOutcomes(
  db: Queryable,
  organizationId: string,
): Promise<KnownDispute['outcome'][]> {
  const { rows } = await db.query<{ outcome: KnownDispute['outcome'] }>(
    `select d.outcome from billing_charges c join billing_disputes d on d.charge_id = c.charge_id
     where c.organization_id = $1
     union
     select d.outcome from billing_subscriptions s
       join billing_charges c on c.customer_id = s.customer_id and c.organization_id is null
       join billing_disputes d on d.charge_id = c.charge_id
     where s.organization_id = $1`,
    [organizationId],
  );
  return rows.map(({ outcome }) => outcome);
}
