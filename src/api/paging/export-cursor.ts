// The cursor of a checkpoint as text: where an export goes on, what it has, and when it began.
import { z } from 'zod';
import { FOREIGN_CHECKPOINT } from '../../contract/resources/export.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import { JURISDICTIONS } from '../../domain/monitor.ts';
import { invalidField } from '../../domain/problem.ts';
import { DEFAULT_NAME } from '../../service/calls/home-names.ts';
import type { ExportPlace } from '../../service/tenancy/export.ts';
import type { ExportHome, ExportSpan, ExportSpans } from '../../service/tenancy/export-homes.ts';
import type { ExportExtent } from '../../service/tenancy/export-pages.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';

/** The last millisecond that a Date can hold. */
const LAST_MS = 8_640_000_000_000_000;
const at = z.int().min(0).max(LAST_MS);
const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const uuid = z.string().regex(UUID_PATTERN);
const home = z.enum([DEFAULT_NAME, ...JURISDICTIONS]);
/** Of each database: its name and its two moments in base 36. */
const spans = z.string().regex(/^([a-z]+(\.[0-9a-z]{1,11}){2}(~(?!$)|$))+$/);
const OF_DIRECTORY = ['project', 'endpoint'] as const;
const OF_HOMES = ['monitor', 'incident', 'observation', 'observation_bucket'] as const;

/** The spans, the kind, and what ExportPlace has of it. */
const position = z.union([
  z.tuple([spans, z.enum([...OF_DIRECTORY, ...OF_HOMES, 'usage', 'end'])]),
  z.tuple([spans, z.enum(OF_DIRECTORY), uuid]),
  z.tuple([spans, z.literal('endpoint'), uuid, count, z.string()]),
  z.tuple([spans, z.enum(OF_HOMES), home]),
  z.tuple([spans, z.enum(OF_HOMES), home, uuid]),
  z.tuple([spans, z.literal('monitor'), home, uuid, uuid]),
  z.tuple([spans, z.literal('incident'), home, uuid, z.string()]),
  z.tuple([spans, z.literal('observation'), home, uuid, uuid, count]),
  z.tuple([spans, z.literal('observation_bucket'), home, uuid, uuid, z.string(), at]),
  z.tuple([spans, z.literal('usage'), z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/)]),
]);

/** An export goes on as the same one. */
function nameOf({ scope, format, includesBuckets }: ExportExtent): string {
  return ['export', format, includesBuckets, scope.projectId ?? scope.organizationId].join(' ');
}

/** What a cursor says of an order. */
type Coded = ExportExtent & { monitorHomes: readonly Pick<ExportHome, 'name' | 'span'>[] };

export function encodeExportCursor(order: Coded, place: ExportPlace): string {
  const { kind, home, projectId, key = [] } = place;
  const names = [home, projectId].filter((name) => name !== undefined);
  return encodeCursor(nameOf(order), [encodeSpans(order), kind, ...names, ...key]);
}

/** Undefined without a cursor. Throws `validation_failed` for one that is of no checkpoint of this export. */
export function decodeExportCursor(
  what: ExportExtent,
  cursor: string | undefined,
): { spans: ExportSpans; place: ExportPlace } | undefined {
  const found = decodeCursor(nameOf(what), position, cursor, FOREIGN_CHECKPOINT);
  if (!found) return undefined;
  const [text, kind, ...rest] = found as [string, ExportPlace['kind'], ...(string | number)[]];
  return { spans: decodeSpans(text), place: placeOf(kind, rest) };
}

function placeOf(kind: ExportPlace['kind'], rest: readonly (string | number)[]): ExportPlace {
  const names = [...rest];
  const next = () => names.shift() as string | undefined;
  const home = isOneOf(OF_HOMES, kind) ? next() : undefined;
  const projectId = kind === 'usage' ? undefined : next();
  return { kind, home, projectId, key: names.length === 0 ? undefined : names };
}

const isOneOf = (kinds: readonly string[], kind: string) => kinds.includes(kind);

function encodeSpans({ monitorHomes }: Coded): string {
  const parts = monitorHomes.map(({ name, span: { startedMs, observationsFromMs } }) =>
    [name, startedMs.toString(36), observationsFromMs.toString(36)].join('.'),
  );
  return parts.join('~');
}

/** Of text that the schema admits. Throws `validation_failed` for a moment that no Date can hold. */
function decodeSpans(text: string): ExportSpans {
  const parts = text.split('~').map((part): [string, ExportSpan] => {
    const [name = '', started = '', from = ''] = part.split('.');
    return [name, { startedMs: momentOf(started), observationsFromMs: momentOf(from) }];
  });
  return new Map(parts);
}

function momentOf(text: string): number {
  const { success, data } = at.safeParse(Number.parseInt(text, 36));
  if (!success) throw invalidField('cursor', FOREIGN_CHECKPOINT, 'invalid_cursor');
  return data;
}
