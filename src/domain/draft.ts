// Drafts of rules (docs/contract/rules.md): their states, and what a draft allows now. Pure. Times are in ms.
import type { MeasurementRule } from './monitor.ts';
import { ProblemError } from './problem.ts';
import { DAY_MS } from './retention.ts';

export const DRAFT_STATUSES = ['open', 'applied', 'canceled', 'expired'] as const;
export type DraftStatus = (typeof DRAFT_STATUSES)[number];

/** A draft expires this long after its last update. */
export const DRAFT_EXPIRY_DAYS = 7;
export const DRAFT_EXPIRY_MS = DRAFT_EXPIRY_DAYS * DAY_MS;
/** Of one monitor, so that nobody fills the disk with them. */
export const MAX_OPEN_DRAFTS = 100;
/** Of one monitor: those that were created last. A creation deletes the others. */
export const MAX_CLOSED_DRAFTS = 100;
/** Of the window of a draft. */
export const MAX_FROZEN_OBSERVATIONS = 200;

export interface Proposal {
  measurementKey: string;
  /** Sparse, as a monitor has it. It replaces the whole rule of the measurement. */
  definition: MeasurementRule;
}

/** The newest observations at the creation of a draft, of every kind. */
export interface FrozenWindow {
  frozenMs: number;
  observationCount: number;
  /** Absent where there is no observation. Sequences, inclusive, and the first and the last moment. */
  range?: { fromSequence: number; throughSequence: number; fromMs: number; throughMs: number };
}

export interface Draft {
  draftId: string;
  /** Of the proposal: each update raises it. */
  version: number;
  baseConfigurationVersion: number;
  /** Of an applied draft. */
  appliedConfigurationVersion?: number;
  status: DraftStatus;
  proposal: Proposal;
  history: FrozenWindow;
  createdMs: number;
  /** The creation, or the last update of the proposal. */
  updatedMs: number;
  /** Absent while it is open. */
  closedMs?: number;
}

/** A stored draft as it is now: one whose time is over has expired, whether or not the sweeper has written that. */
export function draftAt(stored: Draft, nowMs: number): Draft {
  const expiryMs = stored.updatedMs + DRAFT_EXPIRY_MS;
  if (stored.status !== 'open' || nowMs < expiryMs) return stored;
  return { ...stored, status: 'expired', closedMs: expiryMs };
}

/** Throws `draft_closed`. */
export function requireOpenDraft({ status }: Draft): void {
  if (status === 'open') return;
  throw new ProblemError('draft_closed', {
    detail: `The draft is ${status}, and nothing changes it any more: create a new one.`,
  });
}

/** Throws `code` where the draft has another version than the caller has read. */
export function requireDraftVersion(
  { version }: Draft,
  expected: number | undefined,
  code: 'conflict' | 'precondition_failed',
): void {
  if (expected === undefined || expected === version) return;
  throw new ProblemError(code, {
    detail: `The draft now has version ${version}: read it again, then decide whether to repeat the change.`,
    fieldErrors: [
      { code: 'stale', message: `The current version is ${version}.`, path: 'expectedDraftVersion' },
    ],
  });
}
