// The breaker of one endpoint as a pure state machine: (state, event, now) -> state.
// It holds no endpoints and counts no attempts in flight: endpoint-gate.ts does.

/** docs/contract/callbacks.md: half of five or more attempts failed in 5 minutes. */
const WINDOW_MS = 300_000;
const MIN_ATTEMPTS = 5;
const FAILED_SHARE = 0.5;
const FIRST_OPEN_MS = 30_000;
const MAX_OPEN_MS = 600_000;
/** Attempts are counted by slices of the window, so that a busy endpoint costs no more memory than a quiet one. */
const SLICE_MS = 10_000;
/** A probe whose result never came (its process died) holds the breaker no longer than this. */
const PROBE_LOST_MS = 30_000;

interface Slice {
  startMs: number;
  attempts: number;
  failures: number;
}

export type BreakerState =
  | { kind: 'closed'; slices: readonly Slice[] }
  | { kind: 'open'; openMs: number; untilMs: number }
  | { kind: 'probing'; openMs: number; sinceMs: number };

/** `probe`: one attempt that decides. Its result must be recorded as one. */
export type Admission =
  | { kind: 'attempt' | 'probe'; state: BreakerState }
  | { kind: 'refused'; state: BreakerState; retryAtMs: number };

export interface BreakerResult {
  admittedAs: 'attempt' | 'probe';
  failed: boolean;
}

/** The state of an endpoint without a history. */
export const CLOSED_BREAKER: BreakerState = { kind: 'closed', slices: [] };

/** Whether an attempt may begin now. The returned state replaces the given one. */
export function admit(state: BreakerState, nowMs: number): Admission {
  if (state.kind === 'closed') return { kind: 'attempt', state };
  const retryAtMs = state.kind === 'open' ? state.untilMs : state.sinceMs + PROBE_LOST_MS;
  if (nowMs < retryAtMs) return { kind: 'refused', state, retryAtMs };
  return { kind: 'probe', state: { kind: 'probing', openMs: state.openMs, sinceMs: nowMs } };
}

/** The state after a result. An attempt that began before the breaker opened changes nothing when it ends after that. */
export function record(state: BreakerState, result: BreakerResult, nowMs: number): BreakerState {
  if (state.kind === 'closed') {
    // A probe that ends after the breaker has closed counts like any attempt.
    return countAttempt(state.slices, result.failed, nowMs);
  }
  if (state.kind === 'open' || result.admittedAs === 'attempt') return state;
  if (!result.failed) return CLOSED_BREAKER;
  const openMs = Math.min(state.openMs * 2, MAX_OPEN_MS);
  return { kind: 'open', openMs, untilMs: nowMs + openMs };
}

function countAttempt(slices: readonly Slice[], failed: boolean, nowMs: number): BreakerState {
  const startMs = Math.floor(nowMs / SLICE_MS) * SLICE_MS;
  const kept = slices.filter((slice) => slice.startMs > startMs - WINDOW_MS && slice.startMs !== startMs);
  const current = slices.find((slice) => slice.startMs === startMs) ?? { startMs, attempts: 0, failures: 0 };
  const counted = [
    ...kept,
    { startMs, attempts: current.attempts + 1, failures: current.failures + (failed ? 1 : 0) },
  ];
  const attempts = counted.reduce((sum, slice) => sum + slice.attempts, 0);
  const failures = counted.reduce((sum, slice) => sum + slice.failures, 0);
  // A success never opens the breaker, even if it is the attempt with which there are enough of them.
  if (failed && attempts >= MIN_ATTEMPTS && failures >= attempts * FAILED_SHARE) {
    return { kind: 'open', openMs: FIRST_OPEN_MS, untilMs: nowMs + FIRST_OPEN_MS };
  }
  return { kind: 'closed', slices: counted };
}
