// Origins: which object of a cluster a monitor or an endpoint stands for (docs/contract/kubernetes.md, "Identity").
import { z } from 'zod';
import { ENDPOINT_ORIGIN_KINDS, MONITOR_ORIGIN_KINDS } from '../../domain/origin.ts';
import { identifier, integer, patterned, timestamp } from '../fields/field.ts';

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const namespace = patterned(
  new RegExp(`^${LABEL}$`),
  63,
  'Must be the name of a namespace: at most 63 lower-case letters, digits or "-".',
);
const objectName = patterned(
  new RegExp(`^${LABEL}(\\.${LABEL})*$`),
  253,
  'Must be the name of an object: at most 253 lower-case letters, digits, "-" or ".".',
);
const uid = patterned(
  /^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$/,
  64,
  'Must be the object\'s UID: at most 64 letters, digits or "-".',
).describe('Shown to the operator alone: it tells an object that was made again from the one before.');

export const MAX_OWNED_FIELDS = 200;
const ownedFields = z
  .array(
    patterned(
      /^[A-Za-z0-9._/*-]+$/,
      324,
      'Must be the name of a field: at most 324 letters, digits, ".", "_", "/", "*" or "-".',
    ),
  )
  .max(MAX_OWNED_FIELDS)
  .describe(
    'Shown to the operator alone: the fields that objects of this name have set. Default: those of the same origin before.',
  );
const declaration = { uid: uid.optional(), ownedFields: ownedFields.optional() };
const stated = { uid, ownedFields: ownedFields.optional() };

const ofMonitor = { kind: z.enum(MONITOR_ORIGIN_KINDS), namespace, name: objectName };
const ofEndpoint = { kind: z.enum(ENDPOINT_ORIGIN_KINDS), namespace, name: objectName };

const DECLARED = 'The object of the cluster that declares it. The operator alone sets it.';
const UNIQUE = 'Unique among those of the project that are not deleted.';

export const monitorOrigin = z
  .object({
    ...ofMonitor,
    ...declaration,
    orphanedAt: timestamp
      .optional()
      .describe('Since when the operator does not see the object. Absent while it does.'),
  })
  .describe(`${DECLARED} ${UNIQUE}`);
export const monitorOriginInput = z
  .strictObject({ ...ofMonitor, ...stated })
  .describe(`${DECLARED} ${UNIQUE}`);

export const endpointOrigin = z.object({ ...ofEndpoint, ...declaration }).describe(`${DECLARED} ${UNIQUE}`);
export const endpointOriginInput = z
  .strictObject({ ...ofEndpoint, ...stated })
  .describe(`${DECLARED} ${UNIQUE}`);

const RELEASED = 'Null: no object declares it any more.';
export const setMonitorOriginBody = z.strictObject({
  origin: monitorOriginInput.nullable().describe(RELEASED),
});
export const setCallbackOriginBody = z.strictObject({
  origin: endpointOriginInput.nullable().describe(RELEASED),
});

/** So many ids of the greatest length fit into a body. */
export const MAX_REPORTED = 100;
const reported = z.array(identifier).max(MAX_REPORTED).default([]);

/** POST /v1/monitor-origins. Ids of monitors that do not exist, or have no origin, are passed over. */
export const reportOriginsBody = z
  .strictObject({
    orphaned: reported.describe(
      'Monitors whose object is gone. One that is orphaned already keeps its time.',
    ),
    seen: reported.describe('Monitors whose object is there.'),
  })
  .superRefine(({ orphaned, seen }, context) => {
    const refuse = (path: string[], code: string, message: string) =>
      context.addIssue({ code: 'custom', path, message, params: { code } });
    if (orphaned.length + seen.length > MAX_REPORTED)
      refuse(['seen'], 'too_many', `State at most ${MAX_REPORTED} monitors in one call.`);
    if (new Set(orphaned).size < orphaned.length)
      refuse(['orphaned'], 'repeated', 'State each monitor once.');
    if (new Set(seen).size < seen.length) refuse(['seen'], 'repeated', 'State each monitor once.');
    const both = new Set(orphaned);
    if (seen.some((id) => both.has(id)))
      refuse(['seen'], 'repeated', 'State each monitor once, as orphaned or as seen.');
  });

const changed = integer(0, MAX_REPORTED);
export const reportOriginsResult = z
  .object({
    orphaned: changed.describe('How many are orphaned now, and were not.'),
    seen: changed.describe('How many are seen now, and were orphaned.'),
  })
  .describe('How many monitors the call has changed.');

const ORPHANED = 'orphaned';

/** Of a list: `orphaned`, or one origin. */
export const originFilter = z
  .string()
  .max(326)
  .regex(new RegExp(`^(${ORPHANED}|(${MONITOR_ORIGIN_KINDS.join('|')})/${LABEL}/${LABEL}(\\.${LABEL})*)$`), {
    error: 'Must be orphaned, or <kind>/<namespace>/<name> such as Monitor/payments/nightly-backup.',
  })
  .describe(
    '`orphaned`: monitors whose object is gone, without archived ones. `<kind>/<namespace>/<name>`: the monitor of that object.',
  );

export type OriginFilter =
  | typeof ORPHANED
  | Pick<z.output<typeof monitorOriginInput>, 'kind' | 'namespace' | 'name'>;

/** What a filter that the schema has accepted asks for. */
export function originFilterOf(stated: string | undefined): OriginFilter | undefined {
  if (stated === undefined || stated === ORPHANED) return stated;
  const [kind = '', inNamespace = '', name = ''] = stated.split('/');
  const known = MONITOR_ORIGIN_KINDS.find((one) => one === kind);
  return known && { kind: known, namespace: inNamespace, name };
}
