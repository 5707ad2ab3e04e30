// The export: a stream of what the caller's organization or project has. It reads one page more
// than its reader has taken, and holds no connection to the database while he takes none.
import { addAbortSignal } from 'node:stream';
import { HEADER } from '../../contract/fields/headers.ts';
import type { Operations } from '../../contract/operations/operations.ts';
import {
  EXPORT_FORMATS,
  EXPORT_TYPES,
  type ExportFormat,
  FOREIGN_CHECKPOINT,
} from '../../contract/resources/export.ts';
import { invalidField } from '../../domain/problem.ts';
import type { Caller } from '../../service/calls/context.ts';
import { type ExportPlace, walkExport } from '../../service/tenancy/export.ts';
import { openExportSources } from '../../service/tenancy/export-homes.ts';
import type { ExportExtent, ExportOrder, ExportScope } from '../../service/tenancy/export-pages.ts';
import { NO_PROJECT, notAcceptable } from '../auth/admission.ts';
import type { Principal } from '../auth/principal.ts';
import { preferredOf } from '../http/headers.ts';
import type { OpenExports } from '../http/open-exports.ts';
import { watchedStream } from '../http/watched-stream.ts';
import type { Call, Handlers } from '../operation.ts';
import { decodeExportCursor } from '../paging/export-cursor.ts';
import { toLines, toTable } from '../present/present-export.ts';

export function exportHandlers(openExports: OpenExports): Handlers<'exportOrganization'> {
  return {
    exportOrganization: async (call) => {
      const { caller, principal, context, homes, signal } = call;
      const extent = extentOf(call);
      const resumed = decodeExportCursor(extent, call.input.query.cursor);
      const end = openExports.begin(caller);
      try {
        const { findPlan } = context;
        const what = { organizationId: caller.organizationId, includesBuckets: extent.includesBuckets };
        const sources = await openExportSources(homes, what, { findPlan, spans: resumed?.spans });
        const order: ExportOrder = { ...extent, ...sources, includesUsage: mayReadUsage(principal) };
        requireHome(order, resumed?.place);
        const parts = walkExport(order, resumed?.place);
        const text =
          extent.format === 'csv'
            ? toTable(parts, order, { isContinued: resumed !== undefined })
            : toLines(parts, order, context);
        const stream = watchedStream(text, call.requireStillAdmitted).once('close', end);
        // A process that ends breaks it off: the export goes on elsewhere.
        addAbortSignal(signal, stream);
        return { stream, mediaType: EXPORT_TYPES[extent.format] };
      } catch (error) {
        end();
        throw error;
      }
    },
  };
}

/** The database where it stopped is no more of this installation: nobody knows what comes after the place. */
function requireHome({ monitorHomes }: ExportOrder, { home }: Partial<ExportPlace> = {}): void {
  if (home !== undefined && monitorHomes.every(({ name }) => name !== home))
    throw invalidField('cursor', FOREIGN_CHECKPOINT, 'invalid_cursor');
}

type ExportCall = Call<Operations['exportOrganization']>;

function extentOf({ input: { query }, caller, principal, accept }: ExportCall): ExportExtent {
  const { format: stated, includeObservationBuckets: includesBuckets } = query;
  const format = formatOf(stated, accept);
  if (format === 'csv' && includesBuckets)
    throw invalidField('includeObservationBuckets', NO_HOURS, 'not_applicable');
  return { scope: scopeOf(caller, principal), format, includesBuckets };
}

const NO_HOURS = 'Leave it out with csv, which has observations alone.';

/** The stated one, else the one that `Accept` prefers. Throws `not_acceptable` where `Accept` excludes it. */
function formatOf(stated: ExportFormat | undefined, accept: string | undefined): ExportFormat {
  const formats = stated ? [stated] : EXPORT_FORMATS;
  const types = formats.map((format) => EXPORT_TYPES[format]);
  const preferred = preferredOf(accept, types);
  const format = formats.find((one) => EXPORT_TYPES[one] === preferred);
  if (!format) throw notAcceptable(types);
  return format;
}

/** A credential has its project. Without a project an owner has the organization, and nobody else anything. */
function scopeOf({ organizationId, projectId }: Caller, { role }: Principal): ExportScope {
  if (projectId !== NO_PROJECT) return { organizationId, projectId };
  if (role === 'owner') return { organizationId };
  throw invalidField(HEADER.project, 'Name one project of the organization, by its id or name.', 'required');
}

function mayReadUsage(principal: Principal): boolean {
  return principal.kind === 'credential'
    ? principal.scopes.includes('usage:read')
    : principal.role === 'owner';
}
