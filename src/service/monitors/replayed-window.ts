// The kept observations of a span, in pages, and what an answer says of those that were read.
import { ProblemError } from '../../domain/problem.ts';
import type { KeptObservations } from '../../domain/retention.ts';
import { readWindowPage, type WindowObservation } from '../../store/beats/frozen-window.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Database } from '../../store/postgres/pool.ts';

export interface ReplayedWindow {
  observationCount: number;
  successCount: number;
  first?: Place;
  last?: Place;
}

type Place = Pick<WindowObservation, 'sequence' | 'atMs'>;

export const EMPTY_WINDOW: ReplayedWindow = { observationCount: 0, successCount: 0 };

/** Observations in memory at once. */
const PAGE = 5_000;

/** The observations of a span that are kept, in pages. Each page is a statement of its own: observations do not change. */
export async function* readSpan(
  db: Database,
  monitor: MonitorRecord,
  { kept, ...span }: { sinceMs: number; untilMs: number; kept: KeptObservations },
): AsyncGenerator<WindowObservation[]> {
  const throughSequence = monitor.live.lastSequence;
  let afterSequence = kept.fromSequence - 1;
  for (;;) {
    const place = { ...span, afterSequence, throughSequence, limit: PAGE };
    const page = await readWindowPage(db, monitor, place);
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    afterSequence = last.sequence;
  }
}

/** The window with the next page. */
export function extendWindow(window: ReplayedWindow, page: readonly WindowObservation[]): ReplayedWindow {
  return {
    observationCount: window.observationCount + page.length,
    successCount: window.successCount + successesOf(page).length,
    first: window.first ?? page[0],
    last: page.at(-1) ?? window.last,
  };
}

export function successesOf(page: readonly WindowObservation[]): WindowObservation[] {
  return page.filter(({ kind }) => kind === 'success');
}

/** Throws `temporarily_unavailable` where nobody waits for the answer any more. `what`: such as "replay". */
export function requireWanted(signal: AbortSignal, what: string): void {
  if (!signal.aborted) return;
  const detail = `The ${what} was stopped, because the service ends here: send it again.`;
  throw new ProblemError('temporarily_unavailable', { detail, retryAfterSeconds: 1 });
}
