// What the test and the process of the senders tell each other.

/** Sent once: who beats, where and how often. */
export interface SenderSettings {
  /** Addresses of the apis; monitor i beats at the api i modulo their count, or at another one while that one refuses. */
  apis: string[];
  /** Publish addresses of the monitors. */
  addresses: string[];
  periodMs: number;
}

/** A sender that stops for ever, so many milliseconds from now. */
export interface Death {
  index: number;
  inMs: number;
}

export type SenderOrder = { start: SenderSettings } | { die: Death[] } | { report: true };

/** A beat without a 200. `outcome`: the status, the code of the connection's error, or `timeout`. */
export interface LostBeat {
  sentAt: number;
  outcome: string;
}

/** What happened since the last report. All times are those of this machine's clock. */
export interface SenderReport {
  sent: number;
  accepted: number;
  lost: LostBeat[];
  /** Longest wait for an answer of any status. */
  slowestMs: number;
  /** Of each monitor: when its last beat was sent. */
  lastSentAt: number[];
  /** Of each monitor: the longest time between two beats. */
  longestGapMs: number[];
}
