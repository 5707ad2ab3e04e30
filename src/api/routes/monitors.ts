// Monitors: list, create, get, update, delete.
import { z } from 'zod';
import { jurisdiction } from '../../contract/fields/field.ts';
import type { OperationInput } from '../../contract/operations/operations.ts';
import type { ContractLimits, MonitorPatch } from '../../contract/resources/monitor.ts';
import { applyMonitorPatch, atLeastOne } from '../../contract/resources/monitor-patch.ts';
import { originFilterOf } from '../../contract/resources/origin.ts';
import type { Jurisdiction } from '../../domain/monitor.ts';
import { ProblemError } from '../../domain/problem.ts';
import { ahead } from '../../service/calls/ahead.ts';
import { withMonitors } from '../../service/calls/homes.ts';
import { bringProject } from '../../service/calls/placed-call.ts';
import { type UseSlots, withSlots } from '../../service/calls/reserve-slots.ts';
import { changeConfiguration, type Merge } from '../../service/monitors/monitor-configuration.ts';
import { type MonitorPageStart, readMonitors, shorten } from '../../service/monitors/monitor-pages.ts';
import {
  checkBinding,
  createMonitor,
  deleteMonitor,
  type MonitorInput,
  readMonitor,
} from '../../service/monitors/monitors.ts';
import { withOriginElsewhere } from '../../service/monitors/origin-elsewhere.ts';
import type { MonitorFilter, MonitorPosition } from '../../store/monitors/monitor-list.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { type AuditedChange, boundMonitor } from '../../telemetry/audit.ts';
import { requireMayDeclare } from '../auth/admission.ts';
import type { Handlers } from '../operation.ts';
import { decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { presentSigningSecret, type Viewer } from '../present/present-callback.ts';
import { presentMonitor, presentObservation } from '../present/present-monitor.ts';

type MonitorOperation = 'listMonitors' | 'createMonitor' | 'getMonitor' | 'updateMonitor' | 'deleteMonitor';

/** A call that names a monitor in its path. */
interface NamedCall {
  input: { params: { monitorId: string }; query: { jurisdiction?: Jurisdiction } };
  caller: { projectId: string };
}

/** How the call names its monitor. */
export function monitorNameOf({ input, caller }: NamedCall) {
  return {
    projectId: caller.projectId,
    monitorId: input.params.monitorId,
    jurisdiction: input.query.jurisdiction,
  };
}

/** As monitorNameOf, with the version in `If-Match`. */
export function versionedNameOf(call: NamedCall & { input: { ifMatch: number } }) {
  return { ...monitorNameOf(call), expectedVersion: call.input.ifMatch };
}

export function answerMonitor(monitor: MonitorRecord, viewer: Viewer) {
  return { version: monitor.configurationVersion, body: presentMonitor(monitor, viewer) };
}

export const monitorHandlers: Handlers<MonitorOperation> = {
  listMonitors: async (call) => {
    const { query } = call.input;
    const page = { limit: query.limit, after: startOf(query.cursor) };
    const homes = withMonitors(call.homes, query.jurisdiction);
    const { monitors, next } = await readMonitors(homes, call.caller.projectId, filterOf(query), page);
    const items = monitors.map((monitor) => presentMonitor(monitor, call));
    return { body: { items, nextCursor: next && cursorOf(next) } };
  },

  createMonitor: async (call) => {
    const { context, caller } = call;
    const input = inputOf(call.input.body);
    requireMayDeclare(call.principal, input);
    const requireChecked = await ahead(() => checkBinding(context, input.binding, 'callback.url'));
    await bringProject(call);
    const slots = {
      monitors: 1,
      endpoints: input.binding.kind === 'inline' ? 1 : 0,
      paths: { endpoints: 'callback' },
    };
    const create = (requireFree: () => void, use: UseSlots) =>
      call.write(
        (tx, nowMs, atTheEnd) => {
          requireChecked();
          requireFree();
          atTheEnd(use);
          return createMonitor(tx, context, caller, { input, nowMs, atTheEnd });
        },
        ({ monitor, secret, unavailableReason }) => {
          const { version, body: record } = answerMonitor(monitor, call);
          const body = { ...record, binding: unavailableReason && { unavailableReason } };
          const { inlineEndpointId: endpointId } = monitor.binding;
          return {
            version,
            body: { ...body, replayed: false, signingSecret: secret && presentSigningSecret(secret) },
            replayBody: { ...body, replayed: true },
            audit: endpointId === undefined ? undefined : auditedBinding('set', monitor, endpointId),
          };
        },
      );
    return await withOriginElsewhere(call, input.origin, (requireFree) =>
      withSlots(call, slots, (use) => create(requireFree, use)),
    );
  },

  getMonitor: async (call) => {
    const { monitor, latestObservation } = await readMonitor(call.db, call.context, monitorNameOf(call));
    const { version, body } = answerMonitor(monitor, call);
    const latest = latestObservation && presentObservation(latestObservation);
    return { version, body: { ...body, latestObservation: latest } };
  },

  updateMonitor: async (call) => {
    const { context, caller } = call;
    const merge = mergeOf(call.input.body.patch, context);
    return await call.write(
      (tx) => changeConfiguration(tx, context, caller, { name: versionedNameOf(call), merge }),
      (monitor) => answerMonitor(monitor, call),
    );
  },

  deleteMonitor: async (call) =>
    await call.write(
      (tx) => deleteMonitor(tx, call.context, call.caller, versionedNameOf(call)),
      (monitor) => ({
        audit: monitor && auditedBinding('remove', monitor, monitor.binding.inlineEndpointId),
      }),
    ),
};

/** `endpointId`: of an inline binding. */
export function auditedBinding(
  action: 'set' | 'rotate_secret' | 'remove',
  monitor: MonitorRecord,
  endpointId: string | undefined,
): AuditedChange {
  return { action: `binding.${action}`, object: boundMonitor(monitor, endpointId) };
}

function inputOf(body: OperationInput<'createMonitor'>['body']): MonitorInput {
  const { monitorId, jurisdiction: where, callback, origin, ...configuration } = body;
  return {
    monitorId,
    jurisdiction: where,
    binding: callback,
    origin,
    configuration: {
      ...configuration,
      maintenanceSchedules: atLeastOne(body.maintenanceSchedules),
      dependsOn: atLeastOne(body.dependsOn),
      measurements: {},
    },
  };
}

function mergeOf(patch: MonitorPatch, limits: ContractLimits): Merge {
  return (current) => {
    const result = applyMonitorPatch(current, patch, limits);
    if ('configuration' in result) return result.configuration;
    throw new ProblemError('validation_failed', {
      detail: `The patch is not valid. ${result.fieldErrors[0]?.message ?? ''}`.slice(0, 1024),
      fieldErrors: result.fieldErrors.slice(0, 32),
    });
  };
}

function filterOf(query: OperationInput<'listMonitors'>['query']): MonitorFilter {
  const { lifecycle, health, name, jurisdiction: where } = query;
  return {
    lifecycle,
    health,
    namePrefix: name,
    jurisdiction: where,
    labels: labelsOf(query.label),
    origin: originFilterOf(query.origin),
  };
}

function labelsOf(stated: readonly string[] | undefined): { key: string; value: string }[] | undefined {
  return stated?.map((text) => {
    const at = text.indexOf('=');
    return { key: text.slice(0, at), value: text.slice(at + 1) };
  });
}

const LIST = 'monitors';
/** Most characters of a cursor (docs/contract/calls.md). */
const MAX_CURSOR = 512;
const placeSchema = z.union([
  z.tuple([z.string().max(640), z.string().max(128), jurisdiction]),
  z.tuple([z.string().max(128), z.string().max(16), z.string().max(128), jurisdiction]),
]);

function cursorOf(position: MonitorPosition): string {
  const { nameKey, monitorId, jurisdiction: where } = position;
  const cursor = encodeCursor(LIST, [nameKey, monitorId, where]);
  if (cursor.length <= MAX_CURSOR) return cursor;
  // The name has many characters outside ASCII.
  const { prefix, digest } = shorten(position);
  return encodeCursor(LIST, [prefix, digest, monitorId, where]);
}

function startOf(cursor: string | undefined): MonitorPageStart | undefined {
  const place = decodeCursor(LIST, placeSchema, cursor);
  if (!place) return undefined;
  if (place.length === 3) return { nameKey: place[0], monitorId: place[1], jurisdiction: place[2] };
  return { prefix: place[0], digest: place[1], monitorId: place[2], jurisdiction: place[3] };
}
