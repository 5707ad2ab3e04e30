// Operations on monitors (docs/contract/monitors.md).
import { z } from 'zod';
import {
  identifier,
  jurisdiction,
  LABEL_KEY_PATTERN,
  LABEL_VALUE_PATTERN,
  text,
  timestamp,
} from '../fields/field.ts';
import {
  jurisdictionQuery,
  pageOf,
  pageQuery,
  rangeQuery,
  refuseReversedRange,
  waitSeconds,
} from '../fields/paging.ts';
import { beatBody, beatTest, firstBeat, observation } from '../resources/beat.ts';
import { bindingResult, setBindingBody } from '../resources/binding.ts';
import { monitorChange } from '../resources/change.ts';
import { explanation } from '../resources/explanation.ts';
import { incident, incidentState } from '../resources/incident.ts';
import { lifecycleBody } from '../resources/lifecycle.ts';
import {
  type ContractLimits,
  createdMonitor,
  createMonitorBody,
  health,
  lifecycle,
  monitor,
  monitorWithObservation,
  rotatePublishUrlBody,
  rotatePublishUrlResult,
  updateMonitorBody,
} from '../resources/monitor.ts';
import {
  originFilter,
  reportOriginsBody,
  reportOriginsResult,
  setMonitorOriginBody,
} from '../resources/origin.ts';
import { refuseUnusableRange, series, seriesQuery } from '../resources/series.ts';
import { operation } from './operation.ts';

const params = z.strictObject({ monitorId: identifier });
const query = z.strictObject(jurisdictionQuery);
const pagedQuery = z.strictObject({ ...jurisdictionQuery, ...pageQuery });

// key=value: the two patterns without the anchors between them.
const labelFilter = z
  .string()
  .max(400)
  .regex(new RegExp(`${LABEL_KEY_PATTERN.slice(0, -1)}=${LABEL_VALUE_PATTERN.slice(1)}`), {
    error: 'Must be key=value, in Kubernetes label syntax.',
  });

const base = { tag: 'Monitors', project: 'required' } as const;

/** Operations on monitors, with the floors of `limits`. */
export function monitorOperations(limits: ContractLimits) {
  return {
    listMonitors: operation({
      ...base,
      operationId: 'listMonitors',
      method: 'GET',
      path: '/v1/monitors',
      summary: 'List monitors',
      description:
        'Every monitor with its live status, by name ignoring case, then by ID. All filters must hold.',
      preset: 'read',
      query: z.strictObject({
        lifecycle: lifecycle.optional(),
        health: health.optional(),
        label: z
          .array(labelFilter)
          .max(32)
          .optional()
          .describe('`key=value`. Repeatable: every one must hold.'),
        name: text({ minimum: 1, maximum: 160, untrimmed: true })
          .optional()
          .describe('The name begins with this, ignoring case.'),
        jurisdiction: jurisdiction.optional(),
        origin: originFilter.optional(),
        ...pageQuery,
      }),
      success: 200,
      response: pageOf(monitor),
    }),
    createMonitor: operation({
      ...base,
      operationId: 'createMonitor',
      audited: true,
      method: 'POST',
      path: '/v1/monitors',
      summary: 'Create a monitor',
      description: 'Rules on measurements are set afterwards, by a configuration update.',
      preset: 'manage',
      body: createMonitorBody(limits),
      idempotent: true,
      etag: 'configuration',
      success: 201,
      response: createdMonitor,
    }),
    getMonitor: operation({
      ...base,
      operationId: 'getMonitor',
      method: 'GET',
      path: '/v1/monitors/{monitorId}',
      summary: 'Get a monitor',
      description: 'Its configuration, live status, latest observation, and an `ETag`.',
      preset: 'read',
      params,
      query,
      etag: 'configuration',
      success: 200,
      response: monitorWithObservation,
    }),
    updateMonitor: operation({
      ...base,
      operationId: 'updateMonitor',
      method: 'PATCH',
      path: '/v1/monitors/{monitorId}',
      summary: 'Update the configuration of a monitor',
      description:
        'JSON Merge Patch (RFC 7396) inside `patch`: omitted fields keep their values, null removes or goes back to the default, `measurements.<key>: null` removes that measurement. A stated `rulePolicy` replaces the old one whole.',
      preset: 'manage',
      params,
      query,
      body: updateMonitorBody(limits),
      ifMatch: 'configuration',
      etag: 'configuration',
      success: 200,
      response: monitor,
    }),
    deleteMonitor: operation({
      ...base,
      operationId: 'deleteMonitor',
      audited: true,
      method: 'DELETE',
      path: '/v1/monitors/{monitorId}',
      summary: 'Delete a monitor',
      description: 'Permanent: closes open incidents and cancels pending callbacks.',
      preset: 'manage',
      params,
      query,
      ifMatch: 'configuration',
      success: 204,
    }),
    changeMonitorLifecycle: operation({
      ...base,
      operationId: 'changeMonitorLifecycle',
      method: 'POST',
      path: '/v1/monitors/{monitorId}/lifecycle',
      summary: 'Pause, resume, archive or restore a monitor, or begin or end its maintenance',
      preset: 'manage',
      params,
      query,
      body: lifecycleBody,
      idempotent: true,
      ifMatch: 'configuration',
      etag: 'configuration',
      success: 200,
      response: monitor,
    }),
    rotatePublishUrl: operation({
      ...base,
      operationId: 'rotatePublishUrl',
      method: 'POST',
      path: '/v1/monitors/{monitorId}/publish-url/rotate',
      summary: 'Replace the publish address of a monitor',
      description: 'The old address stops at once, or after `overlapSeconds`.',
      preset: 'manage',
      params,
      query,
      body: rotatePublishUrlBody,
      bodyOptional: true,
      idempotent: true,
      ifMatch: 'configuration',
      etag: 'configuration',
      success: 200,
      response: rotatePublishUrlResult,
    }),
    getFirstBeat: operation({
      ...base,
      operationId: 'getFirstBeat',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/first-beat',
      summary: 'Wait for the first beat of a monitor',
      description: 'Held open until the beat comes or `waitSeconds` are over.',
      preset: 'read',
      params,
      query: z.strictObject({ ...jurisdictionQuery, waitSeconds }),
      success: 200,
      response: firstBeat,
    }),
    testBeat: operation({
      ...base,
      operationId: 'testBeat',
      method: 'POST',
      path: '/v1/monitors/{monitorId}/test-beat',
      summary: 'Test a beat',
      description:
        'What this beat would do at this moment. Nothing is recorded, and a beat that would be refused is a 200 too.',
      preset: 'read',
      params,
      query,
      body: beatBody,
      bodyOptional: true,
      rawBody: true,
      changesNothing: true,
      success: 200,
      response: beatTest,
    }),
    explainMonitor: operation({
      ...base,
      operationId: 'explainMonitor',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/explain',
      summary: 'Explain the state of a monitor',
      description:
        'Why it is in its state, what makes its deadline, and what keeps its alerts from being sent; now, or at a moment of the last 30 days.',
      preset: 'read',
      params,
      query: z.strictObject({
        ...jurisdictionQuery,
        at: timestamp
          .optional()
          .describe('A moment at most 30 days ago and not before the creation. Default: now.'),
      }),
      success: 200,
      response: explanation,
    }),
    listObservations: operation({
      ...base,
      operationId: 'listObservations',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/observations',
      summary: 'List the observations of a monitor',
      description: 'Accepted beats, newest first.',
      preset: 'read',
      params,
      query: z
        .strictObject({ ...jurisdictionQuery, ...rangeQuery, ...pageQuery })
        .superRefine(refuseReversedRange),
      success: 200,
      response: pageOf(observation),
    }),
    readSeries: operation({
      ...base,
      operationId: 'readSeries',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/series',
      summary: 'Read a series of a monitor',
      description:
        'Count, minimum, maximum and mean of a measurement by buckets of time, up to the newest beat. Single beats are kept for 30 days, the sums of whole hours for 400.',
      preset: 'read',
      params,
      query: z.strictObject({ ...jurisdictionQuery, ...seriesQuery }).superRefine(refuseUnusableRange),
      success: 200,
      response: series,
    }),
    listMonitorIncidents: operation({
      ...base,
      operationId: 'listMonitorIncidents',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/incidents',
      summary: 'List the incidents of a monitor',
      preset: 'read',
      params,
      query: z.strictObject({ ...jurisdictionQuery, state: incidentState.optional(), ...pageQuery }),
      success: 200,
      response: pageOf(incident),
    }),
    listMonitorChanges: operation({
      ...base,
      operationId: 'listMonitorChanges',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/changes',
      summary: 'List the changes of a monitor',
      description: 'Newest first by configuration version.',
      preset: 'read',
      params,
      query: pagedQuery,
      success: 200,
      response: pageOf(monitorChange),
    }),
    getMonitorBinding: operation({
      ...base,
      operationId: 'getMonitorBinding',
      method: 'GET',
      path: '/v1/monitors/{monitorId}/callback',
      summary: 'Get the callback binding of a monitor',
      description: 'Where alerts go now, or why they cannot.',
      preset: 'read',
      params,
      query,
      etag: 'configuration',
      success: 200,
      response: bindingResult,
    }),
    setMonitorBinding: operation({
      ...base,
      operationId: 'setMonitorBinding',
      audited: true,
      method: 'PUT',
      path: '/v1/monitors/{monitorId}/callback',
      summary: 'Set the callback binding of a monitor',
      description: 'An inline binding gets a signing secret of its own, shown once.',
      preset: 'manage',
      params,
      query,
      body: setBindingBody,
      idempotent: true,
      ifMatch: 'configuration',
      etag: 'configuration',
      success: 200,
      response: bindingResult,
    }),
    setMonitorOrigin: operation({
      ...base,
      operationId: 'setMonitorOrigin',
      method: 'PUT',
      path: '/v1/monitors/{monitorId}/origin',
      summary: 'Set the origin of a monitor',
      description:
        'Takes the origin from the monitor of the project that has it. Where another object stood for the monitor before, its clock starts again with a full interval plus grace. The same origin again changes nothing but its owned fields, so that it needs neither a key nor an ETag.',
      preset: 'operator',
      params,
      query,
      body: setMonitorOriginBody,
      etag: 'configuration',
      success: 200,
      response: monitor,
    }),
    reportMonitorOrigins: operation({
      ...base,
      operationId: 'reportMonitorOrigins',
      method: 'POST',
      path: '/v1/monitor-origins',
      summary: 'Say which monitors have lost their objects',
      description:
        'At most 100 monitors in one call. Those that do not exist, or have no origin, are passed over. The same report again changes nothing.',
      preset: 'operator',
      body: reportOriginsBody,
      success: 200,
      response: reportOriginsResult,
    }),
  };
}
