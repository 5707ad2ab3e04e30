// The page /docs/limits: plans, rates and sizes, from the catalogue of plans and the bounds of the OpenAPI document
// (docs/contract/organization.md, calls.md, beats.md).
import type { JsonObject } from '../../../contract/json-schema.ts';
import { MAX_MESSAGE_CHARACTERS } from '../../../domain/beat-input.ts';
import {
  DETECTOR_FEATURES,
  type DetectorFeature,
  type FindPlan,
  findPlan as findBuiltInPlan,
  type Plan,
} from '../../../domain/plan.ts';
import { type LimitDimension, PLAN_IDS } from '../../../domain/problem.ts';
import { MAX_BODY_BYTES } from '../../http/request.ts';
import { heading, html, table } from '../html.ts';
import { page } from '../page.ts';
import type { ReferenceDocument } from '../reference-page.ts';
import { boundsOf } from '../schema-text.ts';

const number = (value: number) => value.toLocaleString('en-US');

const cell = (value: Plan[keyof Plan]) =>
  typeof value === 'object' ? featureWords(value) : number(Number(value));

const featureWords = (features: readonly DetectorFeature[]) =>
  features.length === DETECTOR_FEATURES.length
    ? 'all'
    : features.map((name) => `\`${name}\``).join(', ') || 'none';

/** The limits that this version holds. */
const LIMITS: readonly (readonly [LimitDimension, keyof Plan, string])[] = [
  ['active_monitors', 'activeMonitors', 'Monitors of the organization that are not archived'],
  ['minimum_interval_seconds', 'minimumIntervalSeconds', 'Shortest interval of a monitor, in seconds'],
  ['beat_cadence', 'beatsPerMinute', 'Beats of one monitor in a minute that are recorded'],
  ['measurements_per_observation', 'measurementsPerObservation', 'Measurements in one beat'],
  ['stored_observations', 'storedObservations', 'Observations of a monitor that are kept, the newest'],
  [
    'observation_retention_seconds',
    'observationRetentionSeconds',
    'How long observations are kept, in seconds; whole days',
  ],
  ['callback_endpoints', 'callbackEndpoints', 'Callback endpoints of the organization; inline ones count'],
  ['detector_feature', 'detectorFeatures', 'What rules of measurements may use'],
  ['api_requests_per_minute', 'apiRequestsPerMinute', 'Calls of a project in a minute; beats do not count'],
];

/** Field of a request, and the schema that has it. */
const FIELDS: readonly (readonly [schema: string, field: string, words: string])[] = [
  ['CreateMonitorRequest', 'name', 'Name of a monitor'],
  ['CreateMonitorRequest', 'description', 'Description of a monitor'],
  ['CreateMonitorRequest', 'labels', 'Labels of a monitor'],
  ['CreateMonitorRequest', 'intervalSeconds', 'Interval, in seconds'],
  ['CreateMonitorRequest', 'graceSeconds', 'Grace, in seconds'],
  ['CreateMonitorRequest', 'maxRuntimeSeconds', 'Longest run, in seconds'],
  ['CreateMonitorRequest', 'recoveryBeats', 'Successes that end an incident'],
  ['CreateMonitorRequest', 'missedBeatsToOpen', 'Missed deadlines that open an incident'],
  ['CreateCallbackRequest', 'alias', 'Alias of an endpoint'],
  ['CreateCallbackRequest', 'url', 'URL of an endpoint'],
  ['RotateSigningSecretRequest', 'overlapSeconds', 'Overlap of signing secrets, in seconds'],
  ['RotateCredentialRequest', 'overlapSeconds', 'Overlap of the secrets of a credential, in seconds'],
  ['RotatePublishUrlRequest', 'overlapSeconds', 'Overlap of publish addresses, in seconds'],
  ['CreateProjectRequest', 'name', 'Name of a project'],
  ['CreateCredentialRequest', 'name', 'Name of a credential'],
  ['NoteIncidentRequest', 'note', 'Note on an incident'],
];

/** `findPlan`: the catalogue of the installation. The examples of the other pages are of the built-in one. */
export function limitsPage(document: ReferenceDocument, findPlan: FindPlan): string {
  const plans = PLAN_IDS.map(findPlan);
  const bound = (schema: string, field: string) => {
    const properties = (document.components.schemas?.[schema] as JsonObject | undefined)?.properties;
    return boundsOf((properties as Record<string, JsonObject> | undefined)?.[field] ?? {});
  };
  return page(
    '/docs/limits',
    'Limits',
    html`<h1>Limits</h1>
${heading(2, 'Plans')}
${table(
  ['Limit', 'Is about', ...plans.map(({ name }) => name)],
  LIMITS.map(([dimension, key, words]) => [
    `\`${dimension}\``,
    words,
    ...plans.map((plan) => cell(plan[key])),
  ]),
)}
<p>An installation of your own is on ${findPlan('scale').name}, unless it was installed otherwise (the chart's value <code>plan</code>, <code>BEATKEEPER_PLAN</code>). <a href="/docs#getBilling"><code>GET /v1/organization/billing</code></a> answers which plan one is on, and the <code>limit</code> of a refusal names it. The examples of these pages are of an installation on ${findBuiltInPlan('free').name} or ${findBuiltInPlan('scale').name}: the answer that you get has your numbers.</p>
<ul>
<li>What would exceed a limit is 403 <a href="/docs/problems/plan_limit_reached"><code>service.plan_limit_reached</code></a>; its <code>limit</code> has the dimension, the limit and what was attempted, and <code>fieldErrors</code> names the field. So is a series in fine buckets, or an explanation of a moment, that needs observations which the plan does not keep; lists leave those out.</li>
<li>Too many calls or beats are 429 <a href="/docs/problems/rate_limited"><code>service.rate_limited</code></a> with <code>Retry-After</code>. A beat that is over the limit is not recorded, but it moves the deadline: a limit never makes a false alert.</li>
<li><code>api_requests_per_minute</code> counts calendar minutes, over all replicas together; the limit may be overshot by two percent. Answers have <code>RateLimit</code> and <code>RateLimit-Policy</code>, which say how many calls are left. <code>beat_cadence</code> is a bucket that holds a minute's worth and fills evenly.</li>
</ul>
${heading(2, 'Sizes')}
${table(
  ['What', 'Bounds'],
  [
    [
      'Body of a call, and JSON body of a beat',
      `at most ${number(MAX_BODY_BYTES)} bytes (16 KiB), after decompression`,
    ],
    [
      '`message` in the JSON body of a beat',
      `at most ${number(MAX_MESSAGE_CHARACTERS)} characters: a longer one is refused`,
    ],
    [
      'Text body of a beat',
      `${number(MAX_MESSAGE_CHARACTERS)} characters are kept, the last ones: a longer one is cut and never refused`,
    ],
    ...FIELDS.map(([schema, field, words]) => [words, bound(schema, field)]),
    ['Maintenance window', 'at most 30 days'],
    [
      'Maintenance schedules of a monitor',
      'at most 8, with windows of 60 s to 7 days, 16 in a row without a break',
    ],
    ['Items of a page', 'at most 200, default 50'],
  ],
)}
${heading(2, 'Times')}
${table(
  ['What', 'Limit'],
  [
    ['Headers of a request', '10 s'],
    ['Body of a request', '30 s'],
    ['A connection without a request', '65 s'],
    ['The answer to a beat', '10 s after its last byte, always'],
    ['A call that waits (`waitSeconds`)', 'at most 30 s'],
    ['One attempt to deliver an alert', '10 s'],
  ],
)}
<p>A project, and each caller in it, has a share of the calls that run and that wait at one time; more of them are 429 with <code>Retry-After</code>. An overloaded service answers 503 with <code>Retry-After</code>. Send a write again with the same <code>Idempotency-Key</code>.</p>`,
  );
}
