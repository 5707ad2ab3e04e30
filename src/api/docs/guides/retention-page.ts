// The page /docs/retention: how long data is kept (docs/contract/organization.md).
import { MAX_CLOSED_DRAFTS } from '../../../domain/draft.ts';
import { IDEMPOTENCY_HOURS, KEPT_DAYS } from '../../../domain/retention.ts';
import { heading, html, table } from '../html.ts';
import { page } from '../page.ts';

const days = (count: number) => `${count} days`;
const hours = (count: number) => (count === 1 ? '1 hour' : `${count} hours`);

/** What is kept, for how long, and what happens then. */
const KEPT: readonly (readonly [string, string, string])[] = [
  [
    'Observations (the accepted beats)',
    `${days(KEPT_DAYS.observations)}; fewer, or not so many of a monitor, by the plan (\`/docs/limits\`)`,
    'gone from `GET …/observations`; the sequence goes on',
  ],
  ['Hours of series', days(KEPT_DAYS.observationBuckets), 'gone, in whole months'],
  [
    'Incidents and their timelines',
    `as long as their monitor, and ${days(KEPT_DAYS.incidents)} after its deletion`,
    'gone',
  ],
  [
    'Deliveries and their attempts',
    `${days(KEPT_DAYS.deliveries)} after their end`,
    'gone; the timeline of the incident stays',
  ],
  [
    'Archived monitors',
    days(KEPT_DAYS.archivedMonitors),
    'deleted, as `DELETE` does; `restorableUntil` says when',
  ],
  ['Deleted monitors', 'not at all', 'configuration, changes and publish address are gone at once'],
  [
    'Drafts of rules',
    `${days(KEPT_DAYS.closedDrafts)} after they were closed, the newest ${MAX_CLOSED_DRAFTS} of a monitor`,
    'gone',
  ],
  ['Removed endpoints', 'not at all', 'address and signing secrets are erased at once'],
  [
    'Changes of endpoints',
    `as long as their endpoint, and ${days(KEPT_DAYS.endpointChanges)} after its removal`,
    'gone',
  ],
  ['Revoked credentials', `${days(KEPT_DAYS.revokedCredentials)}, readable and without effect`, 'gone'],
  [
    'Answers under the `Idempotency-Key` of a call',
    hours(IDEMPOTENCY_HOURS.calls),
    'the same key is a new request',
  ],
  [
    'Answers under the `Idempotency-Key` of a beat',
    hours(IDEMPOTENCY_HOURS.beats),
    'the same key is a new beat',
  ],
  ['Ids of events of Stripe', days(KEPT_DAYS.billingEvents), 'gone'],
  ['Charges and disputes', days(KEPT_DAYS.billingCharges), 'gone'],
  ['Outages of the service and of operators', days(KEPT_DAYS.serviceOutages), 'gone'],
  ['Causes that operators have seen', `${days(KEPT_DAYS.operatorCauses)} after their end`, 'gone'],
  ['Monitors, endpoints and credentials in use', 'until somebody deletes or revokes them', ''],
  ['Projects', 'for ever: a project is renamed and never deleted', ''],
];

export function retentionPage(): string {
  return page(
    '/docs/retention',
    'Retention',
    html`<h1>Retention</h1>
<p>How long Beatkeeper keeps what it has. The times are the same on every plan, but for observations.</p>
${table(['What', 'Is kept', 'Then'], KEPT)}
${heading(2, 'Secrets')}
<p>Tokens, signing secrets and publish addresses are in no log. The secret of a credential is stored only as a digest; signing secrets, the URLs of endpoints and kept answers are stored encrypted. A secret that a rotation has replaced stops at the end of its overlap.</p>`,
  );
}
