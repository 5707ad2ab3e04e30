// The export: a stream of what the caller's organization or project has. Between two pages it holds no connection to the
// database, and it reads the next page when its reader has taken the last one.
import { addAbortSignal, Readable } from 'node:stream';
import { HEADER } from '../../contract/fields/headers.ts';
import { invalidField } from '../../domain/problem.ts';
import type { Caller } from '../../service/calls/context.ts';
import { walkExport } from '../../service/tenancy/export.ts';
import { beginExport, type ExportOrder, type ExportScope } from '../../service/tenancy/export-pages.ts';
import { NO_PROJECT } from '../auth/admission.ts';
import type { Principal } from '../auth/principal.ts';
import type { OpenExports } from '../http/open-exports.ts';
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
      const end = openExports.begin(scope.organizationId);
      try {
        const { span: begun, ...terms } = await beginExport(db, scope.organizationId, context.findPlan);
        const span = resumed?.span ?? begun;
        const includesUsage = mayReadUsage(principal);
        const order: ExportOrder = { scope, span, ...terms, format, includesBuckets, includesUsage };
        const pages = whileAdmitted(walkExport(db, order, resumed?.place), call.requireStillAdmitted);
        const isTable = format === 'csv';
        const text = isTable
          ? toTable(pages, order, { isContinued: resumed !== undefined })
          : toLines(pages, order, context);
        const stream = Readable.from(text).once('close', end);
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

/** A revoked credential ends within five seconds: what is known of one is four seconds old at most. */
const ADMITTED_MS = 1_000;

async function* whileAdmitted<Page>(pages: AsyncIterable<Page>, requireAdmitted: () => Promise<void>) {
  let checkedAt = performance.now();
  for await (const page of pages) {
    if (performance.now() - checkedAt > ADMITTED_MS) {
      await requireAdmitted();
      checkedAt = performance.now();
    }
    yield page;
  }
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
