// The cursor of a checkpoint as text: where an export goes on, what it has, and when it began.
import { z } from 'zod';
import { FOREIGN_CHECKPOINT } from '../../contract/resources/export.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import type { ExportPlace } from '../../service/tenancy/export.ts';
import type { ExportExtent, ExportSpan } from '../../service/tenancy/export-pages.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';

/** The last millisecond that a Date can hold. */
const LAST_MS = 8_640_000_000_000_000;
const at = z.int().min(0).max(LAST_MS);
const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const uuid = z.string().regex(UUID_PATTERN);
const span = [at, at] as const;
const OF_PROJECTS = [
  'project',
  'endpoint',
  'monitor',
  'incident',
  'observation',
  'observation_bucket',
] as const;

/** The span, the kind, and what ExportPlace has of it. */
const position = z.union([
  z.tuple([...span, z.enum([...OF_PROJECTS, 'usage', 'end'])]),
  z.tuple([...span, z.enum(OF_PROJECTS), uuid]),
  z.tuple([...span, z.literal('endpoint'), uuid, count, z.string()]),
  z.tuple([...span, z.literal('monitor'), uuid, uuid]),
  z.tuple([...span, z.literal('incident'), uuid, z.string()]),
  z.tuple([...span, z.literal('observation'), uuid, uuid, count]),
  z.tuple([...span, z.literal('observation_bucket'), uuid, uuid, z.string(), at]),
  z.tuple([...span, z.literal('usage'), z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/)]),
]);

/** An export goes on as the same one. */
function nameOf({ scope, format, includesBuckets }: ExportExtent): string {
  return ['export', format, includesBuckets, scope.projectId ?? scope.organizationId].join(' ');
}

export function encodeExportCursor(order: ExportExtent & { span: ExportSpan }, place: ExportPlace): string {
  const { startedMs, observationsFromMs } = order.span;
  const { kind, projectId, key = [] } = place;
  const project = projectId === undefined ? [] : [projectId];
  return encodeCursor(nameOf(order), [startedMs, observationsFromMs, kind, ...project, ...key]);
}

/** Undefined without a cursor. Throws `validation_failed` for one that is of no checkpoint of this export. */
export function decodeExportCursor(
  what: ExportExtent,
  cursor: string | undefined,
): { span: ExportSpan; place: ExportPlace } | undefined {
  const found = decodeCursor(nameOf(what), position, cursor, FOREIGN_CHECKPOINT);
  if (!found) return undefined;
  const [startedMs, observationsFromMs, kind, ...rest] = found as [
    number,
    number,
    ExportPlace['kind'],
    ...string[],
  ];
  const [projectId, key] = kind === 'usage' ? [undefined, rest] : [rest[0], rest.slice(1)];
  return {
    span: { startedMs, observationsFromMs },
    place: { kind, projectId, key: key.length === 0 ? undefined : key },
  };
}
