// BEATKEEPER_PLANS: what an installation changes of the catalogue, and the sentence for each fault.
import { describe, expect, it } from 'vitest';
import { apiSchema } from '../../../src/config/api-config.ts';
import { ConfigError, readConfig } from '../../../src/config/read-config.ts';
import { catalogueOf, findPlan } from '../../../src/domain/plan.ts';
import { PLAN_IDS } from '../../../src/domain/problem.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');
const read = (plans: string | undefined) =>
  readConfig(apiSchema, {
    DATABASE_URL: 'postgres://u:p@h/d',
    BEATKEEPER_ENCRYPTION_KEYS: `k1:${KEY}`,
    BEATKEEPER_PLANS: plans,
  }).plans;

function faultOf(plans: object | string): string {
  try {
    read(typeof plans === 'string' ? plans : JSON.stringify(plans));
  } catch (error) {
    if (error instanceof ConfigError) return error.faults.join('\n');
    throw error;
  }
  return '';
}

describe('the catalogue of an installation', () => {
  it('is the built-in one without a setting', () => {
    const own = catalogueOf(read(undefined));
    for (const id of [...PLAN_IDS, 'gold']) expect(own(id)).toEqual(findPlan(id));
  });

  it('takes what is stated, and leaves the rest', () => {
    const terms = {
      name: 'Team',
      version: 3,
      active_monitors: 50,
      minimum_interval_seconds: 120,
      beat_cadence: 6,
      measurements_per_observation: 5,
      stored_observations: 200,
      observation_retention_seconds: 172_800,
      callback_endpoints: 0,
      detector_feature: ['minimum', 'sustained'],
      api_requests_per_minute: 90,
      mcp_requests_per_minute: 9,
    };
    const own = catalogueOf(read(JSON.stringify({ builder: terms, scale: { beat_cadence: 1 } })));
    expect(own('builder')).toEqual({
      id: 'builder',
      name: 'Team',
      version: 3,
      activeMonitors: 50,
      minimumIntervalSeconds: 120,
      beatsPerMinute: 6,
      measurementsPerObservation: 5,
      storedObservations: 200,
      observationRetentionSeconds: 172_800,
      callbackEndpoints: 0,
      detectorFeatures: ['minimum', 'sustained'],
      apiRequestsPerMinute: 90,
      mcpRequestsPerMinute: 9,
    });
    expect(own('scale')).toEqual({ ...findPlan('scale'), beatsPerMinute: 1 });
    expect(own('free')).toEqual(findPlan('free'));
  });

  it.each([
    ['no JSON', '{free', 'BEATKEEPER_PLANS must be a JSON object of plans by their ids'],
    ['no object', [], 'BEATKEEPER_PLANS must be a JSON object of plans by their ids'],
    [
      'an unknown plan',
      { gold: {} },
      'BEATKEEPER_PLANS has a plan that there is not. Plans are free, builder, smart, scale',
    ],
    [
      'an unknown dimension',
      { free: { monitors: 1 } },
      'BEATKEEPER_PLANS at free: has a dimension that no plan has. Plans have name, version, active_monitors',
    ],
    ['a plan that is no object', { free: 5 }, 'BEATKEEPER_PLANS at free: must be an object'],
    [
      'a text for a number',
      { free: { active_monitors: '5' } },
      'BEATKEEPER_PLANS at free.active_monitors: must be a whole number from 1 to 1000000000',
    ],
    [
      'an interval below that of the contract',
      { smart: { minimum_interval_seconds: 59 } },
      'BEATKEEPER_PLANS at smart.minimum_interval_seconds: must be a whole number from 60 to 31536000',
    ],
    [
      'more days than partitions stay',
      { free: { observation_retention_seconds: 31 * 86_400 } },
      'BEATKEEPER_PLANS at free.observation_retention_seconds: must be a whole number from 86400 to 2592000',
    ],
    [
      'half a day',
      { free: { observation_retention_seconds: 129_600 } },
      'BEATKEEPER_PLANS at free.observation_retention_seconds: must be whole days, a multiple of 86400',
    ],
    [
      'an unknown feature',
      { free: { detector_feature: ['magic'] } },
      'BEATKEEPER_PLANS at free.detector_feature.0: must be of minimum, maximum, zeroExpectation',
    ],
    [
      'a feature that is named twice',
      { free: { detector_feature: ['minimum', 'ratio', 'minimum'] } },
      'BEATKEEPER_PLANS at free.detector_feature: names a feature twice. Name each one once',
    ],
    ['an empty name', { free: { name: '' } }, 'BEATKEEPER_PLANS at free.name: must not be empty'],
  ])('refuses %s with a sentence', (_, plans, sentence) => {
    expect(faultOf(plans)).toContain(sentence);
  });
});
