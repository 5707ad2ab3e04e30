// What an installation changes of the catalogue of plans: BEATKEEPER_PLANS, a JSON object of plans by their ids
// (docs/contract/organization.md). Dimensions have the names that refusals show.
import { z } from 'zod';
import { DETECTOR_FEATURES, type PlanOverrides, type PlanTerms } from '../domain/plan.ts';
import { PLAN_IDS } from '../domain/problem.ts';
import { DAY_MS, KEPT_DAYS } from '../domain/retention.ts';
import { json } from './variable.ts';

const MANY = 1_000_000_000;
const DAY_SECONDS = DAY_MS / 1000;

function whole(minimum: number, maximum: number) {
  const rule = `must be a whole number from ${minimum} to ${maximum}`;
  return z.int(rule).min(minimum, rule).max(maximum, rule).optional();
}

const retention = whole(DAY_SECONDS, KEPT_DAYS.observations * DAY_SECONDS).refine(
  (seconds = 0) => seconds % DAY_SECONDS === 0,
  `must be whole days, a multiple of ${DAY_SECONDS}`,
);

const features = z
  .array(z.enum(DETECTOR_FEATURES, `must be of ${DETECTOR_FEATURES.join(', ')}`), 'must be a list')
  .refine((list) => new Set(list).size === list.length, 'names a feature twice. Name each one once')
  .optional();

const NAMES = {
  name: z
    .string('must be a text')
    .min(1, 'must not be empty')
    .max(64, 'has more than 64 characters')
    .optional(),
  version: whole(1, MANY),
  active_monitors: whole(1, MANY),
  minimum_interval_seconds: whole(60, 31_536_000),
  beat_cadence: whole(1, 60_000),
  measurements_per_observation: whole(0, 64),
  stored_observations: whole(1, MANY),
  observation_retention_seconds: retention,
  callback_endpoints: whole(0, MANY),
  detector_feature: features,
  api_requests_per_minute: whole(1, MANY),
  mcp_requests_per_minute: whole(1, MANY),
};

const TERMS: Record<keyof typeof NAMES, keyof PlanTerms> = {
  name: 'name',
  version: 'version',
  active_monitors: 'activeMonitors',
  minimum_interval_seconds: 'minimumIntervalSeconds',
  beat_cadence: 'beatsPerMinute',
  measurements_per_observation: 'measurementsPerObservation',
  stored_observations: 'storedObservations',
  observation_retention_seconds: 'observationRetentionSeconds',
  callback_endpoints: 'callbackEndpoints',
  detector_feature: 'detectorFeatures',
  api_requests_per_minute: 'apiRequestsPerMinute',
  mcp_requests_per_minute: 'mcpRequestsPerMinute',
};

const plan = z
  .strictObject(NAMES, {
    error: ({ code }) =>
      code === 'unrecognized_keys'
        ? `has a dimension that no plan has. Plans have ${Object.keys(NAMES).join(', ')}`
        : 'must be an object',
  })
  .transform((stated): Partial<PlanTerms> => {
    const entries = Object.entries(stated).filter(([, value]) => value !== undefined);
    return Object.fromEntries(entries.map(([name, value]) => [TERMS[name as keyof typeof NAMES], value]));
  })
  .optional();

const catalogue = z
  .strictObject(
    { free: plan, builder: plan, smart: plan, scale: plan },
    {
      error: ({ code }) =>
        code === 'unrecognized_keys'
          ? `has a plan that there is not. Plans are ${PLAN_IDS.join(', ')}`
          : 'must be a JSON object of plans by their ids',
    },
  )
  .transform((plans): PlanOverrides => plans);

/** Parses a JSON text. */
export const plans = json('must be a JSON object of plans by their ids', catalogue);
