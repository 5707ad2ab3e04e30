// What holds where a caller states nothing (docs/contract/monitors.md, docs/contract/callbacks.md). The contract fills
// these in; the operator uses them to distinguish a field that is not stated from one that returns to its default.

export const MONITOR_DEFAULTS = {
  /** Raised to the installation's floor of an interval. */
  graceSeconds: 300,
  awaitFirstBeat: true,
  recoveryBeats: 1,
  missedBeatsToOpen: 1,
} as const;

export const SCHEDULE_TIME_ZONE = 'UTC';

/** Of a project: older ones are forgotten. */
export const MAX_FORMER_NAMES = 10;

/** How long the signing secret before the newest one stays valid. */
export const SIGNING_OVERLAP_SECONDS = 300;
