// The built-in catalogue of plans (docs/contract/organization.md) and the problems that their limits make.
import {
  type Limit,
  type LimitDimension,
  PLAN_IDS,
  type PlanId,
  ProblemError,
  type ServiceState,
} from './problem.ts';

/** What a rule of a measurement may use: the kinds of rules, and a policy that waits until a violation lasts. */
export const DETECTOR_FEATURES = [
  'minimum',
  'maximum',
  'zeroExpectation',
  'maximumAbsoluteDelta',
  'maximumPercentageDelta',
  'ratio',
  'sustained',
] as const;
export type DetectorFeature = (typeof DETECTOR_FEATURES)[number];

const BOUNDS: readonly DetectorFeature[] = ['minimum', 'maximum', 'zeroExpectation'];
const DELTAS: readonly DetectorFeature[] = ['maximumAbsoluteDelta', 'maximumPercentageDelta'];

/** What an installation may change of a plan. */
export interface PlanTerms {
  name: string;
  version: number;
  activeMonitors: number;
  minimumIntervalSeconds: number;
  beatsPerMinute: number;
  measurementsPerObservation: number;
  storedObservations: number;
  observationRetentionSeconds: number;
  callbackEndpoints: number;
  detectorFeatures: readonly DetectorFeature[];
  apiRequestsPerMinute: number;
  mcpRequestsPerMinute: number;
}

export interface Plan extends PlanTerms {
  id: PlanId;
}

/** The plan of an organization. An unknown id (a database written by a newer build) counts as the smallest. */
export type FindPlan = (id: string) => Plan;

/** Whether this build knows the plan. */
export function isPlanId(id: string): id is PlanId {
  return PLAN_IDS.some((known) => known === id);
}

const DAY_SECONDS = 86_400;

/** docs/contract/organization.md has the table. */
const PLANS: Readonly<Record<PlanId, Plan>> = {
  free: {
    id: 'free',
    name: 'Free',
    version: 1,
    activeMonitors: 20,
    minimumIntervalSeconds: 300,
    beatsPerMinute: 2,
    measurementsPerObservation: 4,
    storedObservations: 10_000,
    observationRetentionSeconds: 7 * DAY_SECONDS,
    callbackEndpoints: 2,
    detectorFeatures: BOUNDS,
    apiRequestsPerMinute: 60,
    mcpRequestsPerMinute: 10,
  },
  builder: {
    id: 'builder',
    name: 'Builder',
    version: 1,
    activeMonitors: 100,
    minimumIntervalSeconds: 60,
    beatsPerMinute: 10,
    measurementsPerObservation: 16,
    storedObservations: 50_000,
    observationRetentionSeconds: 30 * DAY_SECONDS,
    callbackEndpoints: 10,
    detectorFeatures: [...BOUNDS, ...DELTAS],
    apiRequestsPerMinute: 300,
    mcpRequestsPerMinute: 60,
  },
  smart: {
    id: 'smart',
    name: 'Smart',
    version: 1,
    activeMonitors: 1_000,
    minimumIntervalSeconds: 60,
    beatsPerMinute: 60,
    measurementsPerObservation: 32,
    storedObservations: 500_000,
    observationRetentionSeconds: 30 * DAY_SECONDS,
    callbackEndpoints: 50,
    detectorFeatures: DETECTOR_FEATURES,
    apiRequestsPerMinute: 1_200,
    mcpRequestsPerMinute: 300,
  },
  scale: {
    id: 'scale',
    name: 'Scale',
    version: 1,
    activeMonitors: 1_000_000,
    minimumIntervalSeconds: 60,
    beatsPerMinute: 600,
    measurementsPerObservation: 64,
    storedObservations: 2_000_000,
    observationRetentionSeconds: 30 * DAY_SECONDS,
    callbackEndpoints: 100_000,
    detectorFeatures: DETECTOR_FEATURES,
    apiRequestsPerMinute: 12_000,
    mcpRequestsPerMinute: 3_000,
  },
};

/** The built-in catalogue. An installation may have another one: what answers callers asks its own. */
export const findPlan: FindPlan = catalogueOf({});

export type PlanOverrides = Partial<Record<PlanId, Partial<PlanTerms>>>;

/** The built-in catalogue with what an installation changes of it. */
export function catalogueOf(overrides: PlanOverrides): FindPlan {
  const plans = new Map<string, Plan>(
    PLAN_IDS.map((id) => [id, Object.freeze({ ...PLANS[id], ...overrides[id], id })]),
  );
  return (id) => plans.get(id) ?? (plans.get('free') as Plan);
}

/** Of the other dimensions a larger plan helps, where there is one. */
const ADVICE: Partial<Record<LimitDimension, Limit['remediation']>> = {
  minimum_interval_seconds: 'increase_interval',
  beat_cadence: 'reduce_usage',
  api_requests_per_minute: 'reduce_usage',
  detector_feature: 'remove_feature',
  measurements_per_observation: 'reduce_usage',
};

/** Whether no plan is larger: whoever runs the installation may change what it allows. */
function isLargest({ id }: Pick<Plan, 'id'>): boolean {
  return id === PLAN_IDS.at(-1);
}

export interface Exceeded {
  dimension: LimitDimension;
  /** Undefined where it is no number. */
  limit?: number;
  current?: number;
  attempted?: number;
}

export function limitOf(plan: Plan, exceeded: Exceeded): Limit {
  return {
    ...exceeded,
    plan: { id: plan.id, name: plan.name, version: plan.version },
    remediation: ADVICE[exceeded.dimension] ?? (isLargest(plan) ? 'contact_support' : 'upgrade_plan'),
  };
}

const LATER = 'Ask for a later time, or a series for whole hours';

/** The limits that refuse a request, in words, each with what to do. */
const WORDS: Partial<Record<LimitDimension, (limit: string, attempted: string) => string>> = {
  active_monitors: (limit) =>
    `allows ${limit} active monitors in the organization (paused ones count). Archive or delete one first`,
  minimum_interval_seconds: (limit, attempted) =>
    `allows no interval shorter than ${limit} seconds, and this one has ${attempted}. Choose a longer one`,
  measurements_per_observation: (limit, attempted) =>
    `allows ${limit} measurements in a beat, and this one has ${attempted}. Send fewer`,
  callback_endpoints: (limit) =>
    `allows ${limit} callback endpoints in the organization (inline ones count). Remove one first`,
  observation_retention_seconds: (limit) =>
    `keeps single observations for ${Number(limit) / DAY_SECONDS} days, and this needs older ones. ${LATER}`,
  stored_observations: (limit) =>
    `keeps the newest ${limit} observations of a monitor, and this needs older ones. ${LATER}`,
};

/** 403 `plan_limit_reached` with the limit object. `path` names the field that exceeds, where there is one. */
export function planLimitReached(plan: Plan, exceeded: Exceeded, path?: string): ProblemError {
  const { dimension, limit = 0, attempted = limit + 1 } = exceeded;
  const words = WORDS[dimension]?.(String(limit), String(attempted)) ?? `allows ${limit} for ${dimension}`;
  return refusalOf(plan, exceeded, words, path);
}

/** What a read asks for that needs observations so old. */
export function retentionExceeded(plan: Plan, ageMs: number): Exceeded {
  const limit = plan.observationRetentionSeconds;
  return { dimension: 'observation_retention_seconds', limit, attempted: Math.ceil(ageMs / 1000) };
}

/** 403 `plan_limit_reached` for a feature that the plan does not have, such as `ratio` at `patch.measurements.rows.ratio`. */
export function featureNotInPlan(plan: Plan, feature: string, path: string): ProblemError {
  const words = `does not have the rule feature ${feature}. Remove it`;
  return refusalOf(plan, { dimension: 'detector_feature' }, words, path);
}

function refusalOf(plan: Plan, exceeded: Exceeded, words: string, path: string | undefined): ProblemError {
  const more = isLargest(plan)
    ? 'ask whoever runs the installation to change its plans'
    : 'move to a larger plan';
  const message = `The plan ${plan.name} ${words}, or ${more}.`;
  return new ProblemError('plan_limit_reached', {
    detail: message,
    limit: limitOf(plan, exceeded),
    fieldErrors: path === undefined ? undefined : [{ code: 'plan_limit', message, path }],
  });
}

/** 503: what a call has reserved of the plan ended before the call used it (docs/adr/0013). */
export function leaseEnded(): ProblemError {
  return new ProblemError('temporarily_unavailable', {
    detail: 'The call took too long, and what it had reserved of the plan is free again: send it again.',
    limit: { dimension: 'entitlement_lease', remediation: 'retry_after_refresh' },
  });
}

/** An organization in any other state is suspended (docs/contract/organization.md). */
export const SERVED_STATES: readonly ServiceState[] = ['active', 'payment_grace'];

export function isServed(state: ServiceState): boolean {
  return SERVED_STATES.includes(state);
}

/** The problem that refuses writes and beats of an organization in bad standing, or undefined (docs/contract/organization.md). */
export function serviceProblem(state: ServiceState): ProblemError | undefined {
  if (isServed(state)) return undefined;
  const isDeleting = state === 'deleting';
  return new ProblemError('service_suspended', {
    detail: isDeleting
      ? 'The organization is deleting: reads and the export still work; export its data.'
      : `The organization is ${state}: reads still work; contact support.`,
    limit: {
      ...{ dimension: 'service_state', serviceState: state },
      remediation: isDeleting ? 'export_data' : 'contact_support',
    },
  });
}

/** Throws `service_suspended` if the organization is in bad standing. */
export function requireActiveService(state: ServiceState): void {
  const problem = serviceProblem(state);
  if (problem) throw problem;
}

export interface TokenBucket {
  tokens?: number;
  tokensMs?: number;
}

/**
 * Takes one token of a bucket that holds a minute's worth and fills evenly.
 * Returns the bucket after it; `allowed` false leaves the tokens as they are.
 */
export function takeToken(
  bucket: TokenBucket,
  perMinute: number,
  nowMs: number,
): TokenBucket & { allowed: boolean } {
  const elapsedMs = Math.max(0, nowMs - (bucket.tokensMs ?? nowMs));
  const filled = Math.min(perMinute, (bucket.tokens ?? perMinute) + (elapsedMs * perMinute) / 60_000);
  const allowed = filled >= 1;
  return { tokens: allowed ? filled - 1 : filled, tokensMs: nowMs, allowed };
}
