// How an organization stands: what its subscriptions and disputes mean for its service (docs/contract/organization.md).
// Pure: times are ms.
import { afterEvent, GRACE_MS, type Said, type Subscription } from './billing.ts';
import { PLAN_IDS, type ServiceState } from './problem.ts';
import { DAY_MS } from './retention.ts';

/** From the end of the service. */
const CANCELED_MS = 30 * DAY_MS;

/**
 * What a subscription leaves in its organization when it moves to another one: one that has ended. `said`: the event
 * that moved it. Undefined: it never began.
 */
export function leftBehind(known: Subscription, said: Said): Subscription | undefined {
  if (standingOf(known, said.saidMs) === undefined) return undefined;
  const subscriptionId = `${known.subscriptionId}@${known.organizationId}`;
  const { customerId: _paysElsewhere, trialEndsMs: _ended, ...facts } = known;
  return afterEvent(known, { ...facts, subscriptionId, status: 'canceled', cancelAtPeriodEnd: false }, said);
}

export interface Standing {
  state: ServiceState;
  /** Of `payment_grace`. */
  graceEndsMs?: number;
  /** When the state changes by itself. */
  dueMs?: number;
}

/** Undefined for a subscription that never began: it changes nothing. */
export function standingOf(
  { status, lapsedMs }: Pick<Subscription, 'status' | 'lapsedMs'>,
  nowMs: number,
): Standing | undefined {
  if (status === 'active' || status === 'trialing') return { state: 'active' };
  if (lapsedMs === undefined) return undefined;
  if (status === 'canceled') return endedStanding(lapsedMs, nowMs);
  const graceEndsMs = lapsedMs + GRACE_MS;
  if (nowMs >= graceEndsMs) return endedStanding(graceEndsMs, nowMs);
  return { state: 'payment_grace', graceEndsMs, dueMs: graceEndsMs };
}

function endedStanding(sinceMs: number, nowMs: number): Standing {
  const dueMs = sinceMs + CANCELED_MS;
  return nowMs < dueMs ? { state: 'canceled', dueMs } : { state: 'deleting' };
}

export interface Decisive {
  subscription: Subscription;
  standing: Standing | undefined;
}

const BEST_FIRST: readonly (ServiceState | undefined)[] = [
  'active',
  'payment_grace',
  'canceled',
  'deleting',
  undefined,
];

/**
 * Of all subscriptions that an organization has or had, the one that decides: that of the best service, so that the end
 * of an old one does not end what a new one pays for.
 */
export function findDecisive(subscriptions: readonly Subscription[], nowMs: number): Decisive | undefined {
  const rankOf = ({ subscription, standing }: Decisive) => [
    BEST_FIRST.indexOf(standing?.state),
    -(subscription.lapsedMs ?? 0),
    -PLAN_IDS.indexOf(subscription.plan ?? 'free'),
    -subscription.saidMs,
  ];
  return subscriptions
    .map((subscription) => ({ subscription, standing: standingOf(subscription, nowMs) }))
    .sort(
      (a, b) =>
        compare(rankOf(a), rankOf(b)) ||
        (a.subscription.subscriptionId < b.subscription.subscriptionId ? -1 : 1),
    )[0];
}

function compare(a: readonly number[], b: readonly number[]): number {
  const index = a.findIndex((value, at) => value !== b[at]);
  return index < 0 ? 0 : (a[index] ?? 0) - (b[index] ?? 0);
}

/** How an organization stands. */
export interface OrganizationStanding {
  serviceState: ServiceState;
  plan: string;
  graceEndsMs?: number;
  /** When a sweeper looks at it again. */
  dueMs?: number;
  /** Somebody has given the grace by hand. */
  isGraceGiven?: boolean;
}

/**
 * How an organization stands after its subscriptions. `isLost`: it has just lost a dispute. A suspension for abuse stays
 * until somebody lifts it by hand, whatever is paid, and a grace that somebody has given lasts until its end, or until
 * somebody pays. Without a subscription that began, nothing changes.
 */
export function nextStanding(
  before: OrganizationStanding,
  decisive: Decisive | undefined,
  { nowMs, isLost }: { nowMs: number; isLost: boolean },
): OrganizationStanding {
  const given = givenGraceOf(before, nowMs);
  const said = decisive?.standing;
  const isGraceGiven =
    !isLost && given !== undefined && said?.state !== 'active' && (said?.graceEndsMs ?? 0) < given.endsMs;
  const standing = isGraceGiven ? given.standing : said;
  const isAbused = isLost || before.serviceState === 'abuse_suspended';
  const serviceState = isAbused ? 'abuse_suspended' : (standing?.state ?? before.serviceState);
  const isServed = said?.state === 'active' || said?.state === 'payment_grace';
  return {
    serviceState,
    plan: (isServed ? decisive?.subscription.plan : undefined) ?? before.plan,
    graceEndsMs: serviceState === 'payment_grace' ? (standing?.graceEndsMs ?? before.graceEndsMs) : undefined,
    dueMs: standing?.dueMs,
    isGraceGiven,
  };
}

function givenGraceOf(
  { serviceState, graceEndsMs, isGraceGiven }: OrganizationStanding,
  nowMs: number,
): { endsMs: number; standing: Standing } | undefined {
  if (!isGraceGiven || serviceState !== 'payment_grace') return undefined;
  if (graceEndsMs === undefined || nowMs >= graceEndsMs) return undefined;
  return {
    endsMs: graceEndsMs,
    standing: { state: 'payment_grace', graceEndsMs, dueMs: graceEndsMs },
  };
}
