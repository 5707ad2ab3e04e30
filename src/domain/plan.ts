// The built-in catalogue of plans (docs/contract/organization.md) and the problems that their limits make.
import type { Limit, LimitDimension, PlanId, ServiceState } from './problem.ts';
import { ProblemError } from './problem.ts';

export interface Plan {
  id: PlanId;
  name: string;
  version: number;
  activeMonitors: number;
  minimumIntervalSeconds: number;
  beatsPerMinute: number;
  measurementsPerObservation: number;
  storedObservations: number;
  observationRetentionSeconds: number;
  callbackEndpoints: number;
  apiRequestsPerMinute: number;
}

const PLANS: Record<PlanId, Plan> = {
  free: plan('free', 'Free', [20, 300, 2, 4, 10_000, 604_800, 2, 60]),
  builder: plan('builder', 'Builder', [100, 60, 10, 16, 50_000, 2_592_000, 10, 300]),
  smart: plan('smart', 'Smart', [1_000, 60, 60, 32, 500_000, 2_592_000, 50, 1_200]),
  scale: plan('scale', 'Scale', [1_000_000, 60, 600, 64, 2_000_000, 2_592_000, 500, 12_000]),
};

type Limits = [number, number, number, number, number, number, number, number];

function plan(id: PlanId, name: string, limits: Limits): Plan {
  const [monitors, interval, beats, measurements, stored, retention, endpoints, requests] = limits;
  return Object.freeze({
    id,
    name,
    version: 1,
    activeMonitors: monitors,
    minimumIntervalSeconds: interval,
    beatsPerMinute: beats,
    measurementsPerObservation: measurements,
    storedObservations: stored,
    observationRetentionSeconds: retention,
    callbackEndpoints: endpoints,
    apiRequestsPerMinute: requests,
  });
}

/** The plan of that id; an unknown id (a database written by a newer build) counts as the smallest. */
export function findPlan(id: string): Plan {
  return id in PLANS ? PLANS[id as PlanId] : PLANS.free;
}

const ADVICE: Partial<Record<LimitDimension, Limit['remediation']>> = {
  minimum_interval_seconds: 'increase_interval',
  beat_cadence: 'reduce_usage',
  api_requests_per_minute: 'reduce_usage',
  detector_feature: 'remove_feature',
  measurements_per_observation: 'reduce_usage',
  service_state: 'contact_support',
};

export interface Exceeded {
  dimension: LimitDimension;
  limit: number;
  current?: number;
  attempted?: number;
}

export function limitOf(plan: Plan, exceeded: Exceeded): Limit {
  return {
    ...exceeded,
    plan: { id: plan.id, name: plan.name, version: plan.version },
    remediation: ADVICE[exceeded.dimension] ?? 'upgrade_plan',
  };
}

/** 403 `plan_limit_reached` with the limit object. */
export function planLimitReached(plan: Plan, exceeded: Exceeded): ProblemError {
  return new ProblemError('plan_limit_reached', {
    detail: `The plan ${plan.name} allows ${exceeded.limit} for ${exceeded.dimension}.`,
    limit: limitOf(plan, exceeded),
  });
}

/** Why writes and beats are refused, or undefined: they go on only in good standing (docs/contract/organization.md). */
export function serviceProblem(state: ServiceState): ProblemError | undefined {
  if (state === 'active' || state === 'payment_grace') return undefined;
  return new ProblemError('service_suspended', {
    detail: `The organization is ${state}: reads and the export still work; contact support.`,
    limit: { dimension: 'service_state', serviceState: state, remediation: 'contact_support' },
  });
}

/** Throws `service_suspended` unless the organization is in good standing. */
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
