// How long data is kept (docs/contract/organization.md). The statements that delete it and the pages under /docs read it
// here.

export const DAY_MS = 86_400_000;

/** Days. */
export const KEPT_DAYS = {
  /** The database refuses to drop partitions before: kept_days of store/migrations/0002-partitions.sql. */
  observations: 30,
  observationBuckets: 400,
  /** Counted from their end. */
  deliveries: 30,
  /** Counted from the deletion of their monitor. */
  incidents: 30,
  /** Then they are deleted as a delete does. */
  archivedMonitors: 30,
  /** Counted from their end. */
  closedDrafts: 30,
  revokedCredentials: 30,
  /** Counted from the removal of their endpoint. */
  endpointChanges: 30,
  /** Those of operators too. */
  serviceOutages: 400,
  /** As operators see them, counted from their end. */
  operatorCauses: 30,
  /** A provider sends an event again for three days, and people do for thirty. */
  billingEvents: 60,
  /** Banks take back a payment for 540 days at most. */
  billingCharges: 600,
} as const;

/** Hours. */
export const IDEMPOTENCY_HOURS = { calls: 24, beats: 1 } as const;

/** As long as partitions of observations stay. No plan keeps them longer. */
export const STANDARD_RETENTION_MS = KEPT_DAYS.observations * DAY_MS;

/** The start of the first day (UTC) whose observations are kept: those of whole days go. */
export function keptFromMs(nowMs: number, retentionMs: number): number {
  return Math.floor((nowMs - retentionMs) / DAY_MS) * DAY_MS;
}

/** What a plan says of observations. */
export interface ObservationTerms {
  observationRetentionSeconds: number;
  /** Of a monitor. */
  storedObservations: number;
}

export interface KeptObservations {
  fromMs: number;
  fromSequence: number;
}

/** What reads show of a monitor's observations: the sweeper may not have deleted the others yet. */
export function keptObservations(
  terms: ObservationTerms,
  { nowMs, lastSequence }: { nowMs: number; lastSequence: number },
): KeptObservations {
  return {
    fromMs: keptFromMs(nowMs, terms.observationRetentionSeconds * 1000),
    fromSequence: Math.max(1, lastSequence - terms.storedObservations + 1),
  };
}
