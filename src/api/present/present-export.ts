// An export as the API shows it (docs/contract/organization.md): the text of its pages, with checkpoints. It shows what a
// caller sees who may only read: no publish address, and of a webhook the origin.
import {
  EXPORT_COLUMNS,
  type ExportRecord,
  MOST_BETWEEN_CHECKPOINTS,
} from '../../contract/resources/export.ts';
import { toTime } from '../../domain/timestamp.ts';
import { openKnownUrl } from '../../service/callbacks/endpoint-seal.ts';
import type { ServiceContext } from '../../service/calls/context.ts';
import type { ExportPart, ExportPlace } from '../../service/tenancy/export.ts';
import type { ExportContent, ExportOrder } from '../../service/tenancy/export-pages.ts';
import { encodeExportCursor } from '../paging/export-cursor.ts';
import { presentCallback, type Viewer } from './present-callback.ts';
import { presentIncident } from './present-incident.ts';
import { presentMonitor } from './present-monitor.ts';
import { presentProject } from './present-tenancy.ts';

/** So that a connection that has nothing to send for long is not taken for a dead one. */
const QUIET_MS = 10_000;

type Context = Pick<ServiceContext, 'publicUrl' | 'secrets'>;
type Parts = AsyncIterable<ExportPart>;

/** JSON Lines. `most`: records between two checkpoints. `quietMs`: after so long without one the next part has one. */
export async function* toLines(
  parts: Parts,
  order: ExportOrder,
  context: Context,
  { most = MOST_BETWEEN_CHECKPOINTS, quietMs = QUIET_MS }: { most?: number; quietMs?: number } = {},
): AsyncGenerator<string | Buffer, void, undefined> {
  let sinceCheckpoint = 0;
  let checkpointAt = performance.now();
  let place: ExportPlace | undefined;
  for await (const { content, place: after } of parts) {
    const { text, lines } = linesOf(content, order, context);
    const isDue = sinceCheckpoint + lines > most || performance.now() - checkpointAt >= quietMs;
    if (place && isDue) {
      yield checkpoint(order, place);
      sinceCheckpoint = 0;
      checkpointAt = performance.now();
    }
    if (lines > 0) yield text;
    sinceCheckpoint += lines;
    place = after;
  }
  yield checkpoint(order, { kind: 'end' });
}

/** Of a row, before which the cursor goes. */
const LINE_END = '\r\n'.length;

/** Before the cursor of a row that has nothing else. */
const NO_CELLS = ','.repeat(EXPORT_COLUMNS.length - 1);

/**
 * CSV. The last row of a part has the cursor, and after `quietMs` without a row a part without any has a row of the cursor
 * alone. A table that goes on has no header: it is appended.
 */
export async function* toTable(
  parts: Parts,
  order: ExportOrder,
  { isContinued, quietMs = QUIET_MS }: { isContinued: boolean; quietMs?: number },
): AsyncGenerator<string | Buffer, void, undefined> {
  if (!isContinued) yield `${EXPORT_COLUMNS.join(',')}\r\n`;
  let rowAt = performance.now();
  for await (const { content, place } of parts) {
    if (content.kind !== 'history') continue;
    const hasLines = content.lines > 0;
    if (!hasLines && performance.now() - rowAt < quietMs) continue;
    yield hasLines ? content.text.subarray(0, -LINE_END) : NO_CELLS;
    yield `${encodeExportCursor(order, place)}\r\n`;
    rowAt = performance.now();
  }
}

function checkpoint(order: ExportOrder, place: ExportPlace): string {
  const cursor = encodeExportCursor(order, place);
  return toLine({ type: 'checkpoint', cursor, complete: place.kind === 'end' });
}

const toLine = (record: ExportRecord) => `${JSON.stringify(record)}\n`;

function linesOf(
  content: ExportContent,
  order: ExportOrder,
  context: Context,
): { text: string | Buffer; lines: number } {
  if (content.kind === 'history') return { text: content.text, lines: content.lines };
  const records = recordsOf(content, order, context);
  return { text: records.map(toLine).join(''), lines: records.length };
}

function recordsOf(
  content: Exclude<ExportContent, { kind: 'history' }>,
  order: ExportOrder,
  context: Context,
): ExportRecord[] {
  const viewer: Viewer = { context, caller: { mayManage: false, isOperator: false } };
  const { secrets } = context;
  switch (content.kind) {
    case 'started':
      return [started(order)];
    case 'project':
      return content.items.map((item) => ({ type: 'project', ...presentProject(item) }));
    case 'endpoint':
      return content.items.map((item) => {
        // An address whose key is lost must not keep the rest back.
        const urlBox = openKnownUrl(secrets, item, item.urlBox) === undefined ? undefined : item.urlBox;
        return { type: 'endpoint', ...presentCallback({ ...item, urlBox }, viewer) };
      });
    case 'monitor':
      return content.items.map((item) => {
        const ref = { projectId: item.projectId, endpointId: item.binding.inlineEndpointId ?? '' };
        const isKnown = openKnownUrl(secrets, ref, item.inlineUrlBox) !== undefined;
        const inlineUrlBox = isKnown ? item.inlineUrlBox : undefined;
        return { type: 'monitor', ...presentMonitor({ ...item, inlineUrlBox }, viewer) };
      });
    case 'incident':
      return content.items.map((item) => ({ type: 'incident', ...presentIncident(item) }));
    case 'usage':
      return content.items.map((item) => ({ type: 'usage', ...item }));
    case 'buckets_omitted':
      return [{ type: 'observation_bucket.omitted', reason: NO_BUCKETS }];
    case 'usage_omitted':
      return [{ type: 'usage.omitted', reason: NO_USAGE }];
  }
}

const NO_BUCKETS = 'The plan of the organization does not include summarized history: choose a paid one.';
const NO_USAGE =
  'Usage needs the scope usage:read: use a credential that has it, or the session of an owner.';

/** Of several databases the earliest start, and the latest moment from which all of them have observations. */
function started({ scope, monitorHomes }: ExportOrder): ExportRecord {
  const spans = monitorHomes.map(({ span }) => span);
  return {
    type: 'export.started',
    organizationId: scope.organizationId,
    projectId: scope.projectId,
    startedAt: toTime(Math.min(...spans.map(({ startedMs }) => startedMs))),
    observationsFrom: toTime(Math.max(...spans.map(({ observationsFromMs }) => observationsFromMs))),
  };
}
