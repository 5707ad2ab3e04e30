// Examples of refusals for the state of what is called: 409.
import { ID } from './records.ts';
import { only, type Refusal } from './refusal.ts';

export const CONFLICT = {
  keyRuns: {
    code: 'conflict',
    summary: 'The first call with the same key still runs.',
    detail: 'The first call with this Idempotency-Key is still running: try again with the same key.',
    retryAfterSeconds: 1,
    by: ({ idempotent }) => idempotent === true,
  },
  keyOfAnother: {
    code: 'idempotency_conflict',
    summary: 'The key was used for another request.',
    detail: 'This Idempotency-Key was used for a different request: use a new key for a new request.',
    by: ({ idempotent }) => idempotent === true,
  },
  twoJurisdictions: {
    code: 'conflict',
    summary: 'Two jurisdictions have a monitor of this id.',
    detail: 'This monitorId exists in more than one jurisdiction: name one with ?jurisdiction=.',
    by: ({ path }) => path.includes('{monitorId}'),
  },
  wrongLifecycle: {
    code: 'conflict',
    summary: 'The lifecycle does not allow the action.',
    detail: 'The monitor is paused: enter_maintenance needs one that is active.',
    by: only('changeMonitorLifecycle'),
  },
  monitorIdTaken: {
    code: 'conflict',
    summary: 'The id is taken.',
    detail:
      'The project already has a monitor nightly-backup in the jurisdiction unrestricted: choose another monitorId.',
    fieldErrors: [{ code: 'not_unique', message: 'Choose another monitorId.', path: 'monitorId' }],
    by: only('createMonitor'),
  },
  monitorOriginTaken: {
    code: 'origin_taken',
    summary: 'Another monitor has the origin.',
    detail:
      'The monitor nightly-backup has the origin Monitor payments/nightly-backup: set its origin to take it over.',
    holder: { monitorId: 'nightly-backup' },
    by: only('createMonitor'),
  },
  endpointOriginTaken: {
    code: 'origin_taken',
    summary: 'Another endpoint has the origin.',
    detail: `The callback endpoint ${ID.endpoint} has the origin Callback payments/on-call: set its origin to take it over.`,
    holder: { endpointId: ID.endpoint },
    by: only('createCallback'),
  },
  draftClosed: {
    code: 'draft_closed',
    summary: 'The draft is applied, canceled or expired.',
    detail: 'The draft is applied, and nothing changes it any more: create a new one.',
    by: only('updateDraft', 'applyDraft', 'cancelDraft'),
  },
  staleDraft: {
    code: 'conflict',
    summary: 'The draft has changed since it was read.',
    detail: 'The draft now has version 2: read it again, then decide whether to repeat the change.',
    fieldErrors: [{ code: 'stale', message: 'The current version is 2.', path: 'expectedDraftVersion' }],
    by: only('updateDraft', 'cancelDraft'),
  },
  manyDrafts: {
    code: 'conflict',
    summary: 'The monitor has as many open drafts as it may have.',
    detail: 'The monitor has 100 open drafts: cancel or apply one first.',
    by: only('createDraft'),
  },
  windowGone: {
    code: 'conflict',
    summary: 'Retention has deleted observations of the window.',
    detail:
      'Observations of the window are not kept any more: create a new draft, whose window has the newest ones.',
    by: only('replayDraft'),
  },
  manyIncidents: {
    code: 'conflict',
    summary: 'A rule would have opened too many incidents to show.',
    detail:
      'One of the rules would have opened more than 1000 incidents: replay a shorter span, or propose wider bounds.',
    by: only('replayDraft'),
  },
  fewValues: {
    code: 'conflict',
    summary: 'The history has too few values of the measurement.',
    detail:
      'The history has 7 values of rows, and a suggestion needs 20: ask again when more beats have it, or choose bounds yourself.',
    by: only('suggestRule'),
  },
  manyMeasurements: {
    code: 'conflict',
    summary: 'The monitor has rules for as many measurements as it may have.',
    detail: 'A monitor has rules for at most 64 measurements: remove one first.',
    by: only('applyDraft'),
  },
  aliasTaken: {
    code: 'conflict',
    summary: 'The alias is taken.',
    detail: 'Another callback endpoint of this project has the alias on-call: choose another one.',
    fieldErrors: [{ code: 'not_unique', message: 'Choose another alias.', path: 'alias' }],
    by: only('createCallback', 'updateCallback'),
  },
  noRelay: {
    code: 'relay_not_configured',
    summary: 'The kind needs a relay.',
    detail: 'This installation has no messaging relay: use an endpoint of kind webhook.',
    by: only('createCallback', 'updateCallback', 'connectRelay'),
  },
  notConnected: {
    code: 'conflict',
    summary: 'The person is not connected to the relay.',
    detail:
      'This person is not connected to ntfy. They connect first, signed in, by POST /v1/relay/connections.',
    fieldErrors: [
      {
        code: 'not_connected',
        message: 'This person is not connected to ntfy.',
        path: 'relay.actorId',
      },
    ],
    by: only('createCallback', 'updateCallback'),
  },
  otherTest: {
    code: 'conflict',
    summary: 'Another test delivery is on its way to the endpoint.',
    detail:
      'Another test delivery is on its way to this callback endpoint: wait for its answer or for Retry-After, then try again.',
    retryAfterSeconds: 1,
    by: only('testCallback'),
  },
  endpointDisabled: {
    code: 'conflict',
    summary: 'The endpoint is disabled.',
    detail: 'The callback endpoint is disabled: set its lifecycle to active, then send the test again.',
    by: only('testCallback'),
  },
  endpointGone: {
    code: 'conflict',
    summary: 'The endpoint of the delivery is removed.',
    detail: `The callback endpoint cb_01a2034c2f6b7a319e04d85c1b7f20a6 is removed: nothing can be sent to it.`,
    by: only('redeliver'),
  },
  incidentOver: {
    code: 'conflict',
    summary: 'The incident is over.',
    detail: 'The incident is recovered, so it cannot be acknowledged or resolved: write a note instead.',
    by: only('acknowledgeIncident', 'resolveIncident'),
  },
  nameTaken: {
    code: 'conflict',
    summary: 'The name is taken.',
    detail: 'The organization already has a project with this name: choose another name.',
    fieldErrors: [{ code: 'not_unique', message: 'Choose another name.', path: 'name' }],
    by: only('createProject', 'updateProject'),
  },
  credentialEnded: {
    code: 'conflict',
    summary: 'The credential has ended.',
    detail: 'The credential is revoked: create a new one.',
    by: only('rotateCredential'),
  },
} satisfies Record<string, Refusal>;
