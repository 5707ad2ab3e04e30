// Monitors: list, create, get, update, delete.
import { z } from 'zod';
import { jurisdiction } from '../../contract/fields/field.ts';
import type { OperationInput } from '../../contract/operations/operations.ts';
import { applyMonitorPatch } from '../../contract/resources/monitor-patch.ts';
import { ProblemError } from '../../domain/problem.ts';
import { changeConfiguration, type Merge } from '../../service/monitors/monitor-configuration.ts';
import { type MonitorPageStart, readMonitors, shorten } from '../../service/monitors/monitor-pages.ts';
import {
  checkBinding,
  createMonitor,
  deleteMonitor,
  type MonitorInput,
  readMonitor,
} from '../../service/monitors/monitors.ts';
import type { MonitorFilter, MonitorPosition } from '../../store/monitors/monitor-list.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Call, Handlers } from '../operation.ts';
import { decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { monitorEtag, presentMonitor, presentObservation } from '../present/present-monitor.ts';

type MonitorOperation = 'listMonitors' | 'createMonitor' | 'getMonitor' | 'updateMonitor' | 'deleteMonitor';

/** Path and query of a route below a monitor. */
interface NamedCall {
  input: { params: { monitorId: string }; query: { jurisdiction?: MonitorRecord['jurisdiction'] } };
  caller: { projectId: string };
  ifMatch?: number;
}

/** How the call names its monitor. */
export function monitorNameOf({ input, caller }: NamedCall) {
  return {
    projectId: caller.projectId,
    monitorId: input.params.monitorId,
    jurisdiction: input.query.jurisdiction,
  };
}

/** The same with the version of `If-Match`. */
export function versionedNameOf(call: NamedCall) {
  return { ...monitorNameOf(call), expectedVersion: call.ifMatch };
}

export const monitorHandlers: Handlers<MonitorOperation> = {
  listMonitors: async (call) => {
    const { query } = call.input;
    const page = { limit: query.limit, after: startOf(query.cursor) };
    const { monitors, next } = await readMonitors(call.context, call.caller.projectId, filterOf(query), page);
    const items = monitors.map((monitor) => presentMonitor(monitor, call));
    return { status: 200, body: { items, nextCursor: next && cursorOf(next) } };
  },

  createMonitor: async (call) => {
    const { context, caller } = call;
    const input = inputOf(call.input.body);
    await checkBinding(context, input.binding, 'callback.url');
    return await call.write(
      async (tx, nowMs, atTheEnd) => await createMonitor(tx, context, caller, { input, nowMs, atTheEnd }),
      ({ monitor, signingSecret }) => {
        const record = presentMonitor(monitor, call);
        return {
          status: 201,
          headers: monitorEtag(monitor),
          body: { ...record, replayed: false, signingSecret },
          replayBody: { ...record, replayed: true },
        };
      },
    );
  },

  getMonitor: async (call) => {
    const { monitor, latestObservation } = await readMonitor(call.context, monitorNameOf(call));
    return {
      status: 200,
      headers: monitorEtag(monitor),
      body: {
        ...presentMonitor(monitor, call),
        latestObservation: latestObservation && presentObservation(latestObservation),
      },
    };
  },

  updateMonitor: async (call) => {
    const change = { name: versionedNameOf(call), merge: mergeOf(call) };
    return await call.write(
      async (tx) => await changeConfiguration(tx, call.context, call.caller, change),
      (monitor) => ({ status: 200, headers: monitorEtag(monitor), body: presentMonitor(monitor, call) }),
    );
  },

  deleteMonitor: async (call) =>
    await call.write(
      async (tx) => await deleteMonitor(tx, call.context, call.caller, versionedNameOf(call)),
      () => ({ status: 204 }),
    ),
};

function inputOf(body: OperationInput<'createMonitor'>['body']): MonitorInput {
  const { monitorId, jurisdiction: where, callback, ...configuration } = body;
  return {
    monitorId,
    jurisdiction: where,
    binding: callback,
    configuration: { ...configuration, measurements: {} },
  };
}

function mergeOf({ input, context }: Call<'updateMonitor'>): Merge {
  return (current) => {
    const result = applyMonitorPatch(current, input.body.patch, context);
    if ('configuration' in result) return result.configuration;
    throw new ProblemError('validation_failed', {
      detail: `The patch is not valid. ${result.fieldErrors[0]?.message ?? ''}`.slice(0, 1024),
      fieldErrors: result.fieldErrors.slice(0, 32),
    });
  };
}

function filterOf(query: OperationInput<'listMonitors'>['query']): MonitorFilter {
  const { lifecycle, health, name, jurisdiction: where } = query;
  return { lifecycle, health, namePrefix: name, jurisdiction: where, labels: labelsOf(query.label) };
}

function labelsOf(stated: readonly string[] | undefined): { key: string; value: string }[] | undefined {
  return stated?.map((text) => {
    const at = text.indexOf('=');
    return { key: text.slice(0, at), value: text.slice(at + 1) };
  });
}

const LIST = 'monitors';
/** Characters of base64url that a cursor may have (docs/contract/calls.md). */
const MAX_CURSOR = 512;
const placeSchema = z.union([
  z.tuple([z.string().max(640), z.string().max(128), jurisdiction]),
  z.tuple([z.string().max(128), z.string().max(16), z.string().max(128), jurisdiction]),
]);

function cursorOf(position: MonitorPosition): string {
  const { nameKey, monitorId, jurisdiction: where } = position;
  const cursor = encodeCursor(LIST, [nameKey, monitorId, where]);
  if (cursor.length <= MAX_CURSOR) return cursor;
  // A name of many characters outside of ASCII.
  const { prefix, digest } = shorten(position);
  return encodeCursor(LIST, [prefix, digest, monitorId, where]);
}

function startOf(cursor: string | undefined): MonitorPageStart | undefined {
  const place = decodeCursor(LIST, placeSchema, cursor);
  if (!place) return undefined;
  if (place.length === 3) return { nameKey: place[0], monitorId: place[1], jurisdiction: place[2] };
  return { prefix: place[0], digest: place[1], monitorId: place[2], jurisdiction: place[3] };
}
