// Examples of refusals for who calls, and of the limits of the plan: 401 to 406.
import {
  type Exceeded,
  featureNotInPlan,
  findPlan,
  planLimitReached,
  retentionExceeded,
  serviceProblem,
} from '../../../domain/plan.ts';
import { DAY_MS } from '../../../domain/retention.ts';
import { always, only, type Refusal, writes } from './refusal.ts';

/** The sentences of limits are those that the service makes. */
const free = findPlan('free');
const beyond = (exceeded: Exceeded, path?: string) => {
  const attempted = exceeded.attempted ?? (exceeded.limit ?? 0) + 1;
  return planLimitReached(free, { ...exceeded, attempted }, path).options;
};
const INTERVAL = {
  dimension: 'minimum_interval_seconds',
  limit: free.minimumIntervalSeconds,
  attempted: 60,
} as const;
const RETENTION = retentionExceeded(free, 9 * DAY_MS);
const ENDPOINTS = {
  dimension: 'callback_endpoints',
  limit: free.callbackEndpoints,
  current: free.callbackEndpoints,
} as const;

export const NOT_ALLOWED = {
  noToken: {
    code: 'authentication_required',
    summary: 'There is no valid token.',
    detail:
      'The request has no valid token: send an API credential or a session token in Authorization: Bearer <token>.',
    by: always,
  },
  noRole: {
    code: 'permission_denied',
    summary: 'The session has no role.',
    detail: 'The session has no role in an organization of this installation: ask an owner for a role.',
    by: ({ preset }) => preset === 'read',
  },
  onlyReads: {
    code: 'permission_denied',
    summary: 'The credential may only read.',
    detail:
      'The credential has the preset read. This needs a credential with the preset manage, or a session of a member or owner.',
    by: ({ preset }) => preset === 'manage',
  },
  notASession: {
    code: 'permission_denied',
    summary: 'The caller is not a person.',
    detail:
      'The credential has the preset manage. This is for people: it needs a session of a viewer, member or owner.',
    by: ({ preset }) => preset === 'session',
  },
  notOwner: {
    code: 'permission_denied',
    summary: 'The caller is no owner.',
    detail: 'The credential has the preset manage. This needs a session of an owner.',
    by: ({ preset }) => preset === 'owner',
  },
  notOwnerOrOperator: {
    code: 'permission_denied',
    summary: 'The caller is neither an owner nor the operator.',
    detail: 'The credential has the preset manage. This needs a session of an owner, or the operator.',
    by: ({ preset }) => preset === 'owner_or_operator',
  },
  notOperator: {
    code: 'permission_denied',
    summary: 'The caller is not the operator.',
    detail:
      'The session has the role owner. This is for the operator alone: it sees the objects of the cluster.',
    by: ({ preset }) => preset === 'operator',
  },
  originOfOthers: {
    code: 'permission_denied',
    summary: 'The caller is not the operator, and states an origin.',
    detail: 'The field origin is for the operator alone: leave it out.',
    by: only('createMonitor', 'createCallback'),
  },
  monitorLimit: {
    code: 'plan_limit_reached',
    summary: 'The plan has no monitor left.',
    ...beyond({ dimension: 'active_monitors', limit: free.activeMonitors, current: free.activeMonitors }),
    by: only('createMonitor'),
  },
  monitorLimitOfAction: {
    code: 'plan_limit_reached',
    summary: 'The plan has no monitor left for the one that is restored.',
    ...beyond(
      { dimension: 'active_monitors', limit: free.activeMonitors, current: free.activeMonitors },
      'action',
    ),
    by: only('changeMonitorLifecycle'),
  },
  intervalLimit: {
    code: 'plan_limit_reached',
    summary: 'The interval is shorter than the plan allows.',
    ...beyond(INTERVAL, 'intervalSeconds'),
    by: only('createMonitor'),
  },
  intervalLimitOfPatch: {
    code: 'plan_limit_reached',
    summary: 'The interval is shorter than the plan allows.',
    ...beyond(INTERVAL, 'patch.intervalSeconds'),
    by: only('updateMonitor'),
  },
  featureOfPatch: {
    code: 'plan_limit_reached',
    summary: 'The plan does not have the rule.',
    ...featureNotInPlan(free, 'ratio', 'patch.measurements.rows.ratio').options,
    by: only('updateMonitor'),
  },
  featureOfDraft: {
    code: 'plan_limit_reached',
    summary: 'The plan does not have the rule.',
    ...featureNotInPlan(free, 'ratio', 'proposal.definition.ratio').options,
    by: only('createDraft', 'updateDraft', 'applyDraft'),
  },
  featureOfSuggestion: {
    code: 'plan_limit_reached',
    summary: 'The plan does not have the bounds that the history suggests.',
    ...featureNotInPlan(free, 'maximum', 'measurementKey').options,
    by: only('suggestRule'),
  },
  endpointLimit: {
    code: 'plan_limit_reached',
    summary: 'The plan has no callback endpoint left.',
    ...beyond(ENDPOINTS),
    by: only('createCallback'),
  },
  endpointLimitOfMonitor: {
    code: 'plan_limit_reached',
    summary: 'The plan has no callback endpoint left for an inline binding.',
    ...beyond(ENDPOINTS, 'callback'),
    by: only('createMonitor'),
  },
  endpointLimitOfBinding: {
    code: 'plan_limit_reached',
    summary: 'The plan has no callback endpoint left for an inline binding.',
    ...beyond(ENDPOINTS, 'binding'),
    by: only('setMonitorBinding'),
  },
  retentionOfBuckets: {
    code: 'plan_limit_reached',
    summary: 'The plan does not keep the observations that buckets so fine need.',
    ...beyond(RETENTION, 'bucketSeconds'),
    by: only('readSeries'),
  },
  retentionOfMoment: {
    code: 'plan_limit_reached',
    summary: 'The plan does not keep the observations of that moment.',
    ...beyond(RETENTION, 'at'),
    by: only('explainMonitor'),
  },
  suspended: {
    code: 'service_suspended',
    summary: 'The organization is suspended.',
    detail: '',
    ...serviceProblem('canceled')?.options,
    by: (spec) => writes(spec) && !spec.changesNothing,
  },
  notFound: {
    code: 'not_found',
    summary: 'It does not exist, or the caller may not see it.',
    detail: 'There is no such resource in this project.',
    by: always,
  },
  notAcceptable: {
    code: 'not_acceptable',
    summary: '`Accept` excludes JSON.',
    detail: 'Accept excludes application/json, the media type of the answer: admit it.',
    by: ({ streams }) => streams === undefined,
  },
  notAcceptableStream: {
    code: 'not_acceptable',
    summary: '`Accept` excludes both formats, or the one that `format` states.',
    detail:
      'Accept excludes application/x-ndjson and text/csv, the media types of the answer: admit one of them.',
    by: ({ streams }) => streams !== undefined,
  },
} satisfies Record<string, Refusal>;
