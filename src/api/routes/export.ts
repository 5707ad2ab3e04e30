// The export: a stream of what the caller's organization or project has. Between two pages it holds no connection to the
// database, and it reads the next page when its reader has taken the last one.
import { addAbortSignal } from 'node:stream';
import { HEADER } from '../../contract/fields/headers.ts';
import { FOREIGN_CHECKPOINT } from '../../contract/resources/export.ts';
import { invalidField } from '../../domain/problem.ts';
import type { Caller } from '../../service/calls/context.ts';
import { walkExport } from '../../service/tenancy/export.ts';
import {
  beginExport,
  CLOCK_SLACK_MS,
  type ExportOrder,
  type ExportScope,
} from '../../service/tenancy/export-pages.ts';
import { NO_PROJECT } from '../auth/admission.ts';
import type { Principal } from '../auth/principal.ts';
import type { OpenExports } from '../http/open-exports.ts';
import { watchedStream } from '../http/watched-stream.ts';
import type { Handlers } from '../operation.ts';
import { decodeExportCursor } from '../paging/export-cursor.ts';
import { toLines, toTable } from '../present/present-export.ts';

export function exportHandlers(openExports: OpenExports): Handlers<'exportOrganization'> {
  return {
    exportOrganization: async (call) => {
      const { input, caller, principal, context, db, signal } = call;
      const { query } = input;
      const { format, cursor, includeObservationBuckets: includesBuckets } = query;
      const scope = scopeOf(caller, principal);
      const resumed = decodeExportCursor({ scope, format, includesBuckets }, cursor);
      const end = openExports.begin(caller);
      try {
        const { span: begun, ...terms } = await beginExport(db, scope.organizationId, context.findPlan);
        const span = resumed?.span ?? begun;
        if (span.startedMs > begun.startedMs + CLOCK_SLACK_MS)
          throw invalidField('cursor', FOREIGN_CHECKPOINT, 'invalid_cursor');
        const includesUsage = mayReadUsage(principal);
        const order: ExportOrder = { scope, span, ...terms, format, includesBuckets, includesUsage };
        const pages = walkExport(db, order, resumed?.place);
        const isTable = format === 'csv';
        const text = isTable
          ? toTable(pages, order, { isContinued: resumed !== undefined })
          : toLines(pages, order, context);
        const stream = watchedStream(text, call.requireStillAdmitted).once('close', end);
        // A process that ends breaks it off: the export goes on elsewhere.
        addAbortSignal(signal, stream);
        return { stream, mediaType: isTable ? 'text/csv' : 'application/x-ndjson' };
      } catch (error) {
        end();
        throw error;
      }
    },
  };
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
