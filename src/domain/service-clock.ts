// What the rows of the service clock say: in which spans some api could accept no beats, and which api is gone
// (docs/contract/deadlines.md). Pure; every api asks it about the same rows, one after the other.
import type { Outage } from './monitor.ts';

/** An api that shows no sign of life for longer is away. */
export const AWAY_MS = 3_000;
/** Then it is gone: until then balancers may have sent to it. */
export const GONE_MS = 30_000;

/** The row of one process of the role `api`. */
export interface ApiClock {
  apiId: string;
  /** Where balancers send to it: a process that starts there takes its place. */
  address: string;
  /** Every beat that reached it before is committed, or its excuse is. */
  decidedMs: number;
  /** Its last sign of life. */
  seenMs: number;
  ended: boolean;
}

export interface ClockOutage extends Outage {
  /**
   * `away`: this api stood still or did not reach the database. `none`: no api ran. `replaced`: a process died, and this
   * one took its place. `gone`: a process died, and none took its place. `lost`: this api refused more beats than it can
   * remember.
   */
  reason: 'away' | 'none' | 'replaced' | 'gone' | 'lost';
  /** Of the apis that were away. */
  addresses: string[];
}

export interface ClockSettlement {
  /** The rows that change, and the one of this api. */
  clocks: ApiClock[];
  outages: ClockOutage[];
  /** By how much the database's clock was set back, ms. */
  setBackMs?: number;
}

/**
 * Brings the rows up to date for a sign of life of `own` at `nowMs`. What it moves forward, and what it ends, an outage
 * covers.
 */
export function settleClocks(
  clocks: readonly ApiClock[],
  own: Pick<ApiClock, 'apiId' | 'address'>,
  nowMs: number,
): ClockSettlement {
  const setBackMs = Math.max(0, ...clocks.map(({ seenMs }) => seenMs - nowMs));
  if (setBackMs > AWAY_MS) {
    const present = clocks.map((clock) => toPresent(clock, nowMs));
    const { clocks: changed, outages } = settleClocks(present, own, nowMs);
    const rest = present.filter(({ apiId }) => changed.every((clock) => clock.apiId !== apiId));
    return { clocks: [...rest, ...changed], outages, setBackMs };
  }
  const mine = clocks.find(({ apiId }) => apiId === own.apiId);
  const others = clocks.filter((clock) => clock !== mine && !clock.ended);
  const running: ApiClock = { ...own, decidedMs: nowMs, seenMs: nowMs, ended: false };
  // A start after a time in which no api ran is away since the last sign of any.
  const lastMs = mine?.seenMs ?? Math.max(...clocks.map(({ seenMs }) => seenMs));
  const settled =
    nowMs - lastMs > AWAY_MS && clocks.length > 0
      ? endAbsence({ mine, others, lastMs }, own, nowMs)
      : replaceGone({ mine, others }, own, nowMs);
  return { ...settled, clocks: [...settled.clocks, running] };
}

const toPresent = (clock: ApiClock, nowMs: number): ApiClock => ({
  ...clock,
  decidedMs: Math.min(clock.decidedMs, nowMs),
  seenMs: Math.min(clock.seenMs, nowMs),
});

interface Present {
  mine: ApiClock | undefined;
  others: readonly ApiClock[];
}

/**
 * This api was away. Whoever else is away may have been away for the same reason, such as the database, and need not be
 * gone: the outage covers it as well. Its time without a sign does not run on meanwhile; it is not forgotten either, or
 * an api that is often away would keep one that is gone for ever.
 */
function endAbsence(
  { mine, others, lastMs }: Present & { lastMs: number },
  own: Pick<ApiClock, 'apiId' | 'address'>,
  nowMs: number,
): ClockSettlement {
  const away = others.filter(({ seenMs }) => nowMs - seenMs > AWAY_MS);
  const fromMs = Math.min(mine?.decidedMs ?? lastMs, ...away.map(({ decidedMs }) => decidedMs));
  const forgiven = away.map((clock) => ({
    ...clock,
    decidedMs: nowMs,
    seenMs: Math.min(nowMs, clock.seenMs + nowMs - lastMs),
    ended: !mine && clock.address === own.address,
  }));
  const addresses = [...new Set([own.address, ...away.map(({ address }) => address)])];
  return {
    clocks: forgiven,
    outages: [{ fromMs, toMs: nowMs, reason: mine ? 'away' : 'none', addresses }],
  };
}

/** Ends the rows of apis that are gone, and of the one whose place a new api takes. */
function replaceGone(
  { mine, others }: Present,
  own: Pick<ApiClock, 'apiId' | 'address'>,
  nowMs: number,
): ClockSettlement {
  const clocks: ApiClock[] = [];
  const outages: ClockOutage[] = [];
  for (const clock of others) {
    const isReplaced = !mine && clock.address === own.address;
    if (!isReplaced && nowMs - clock.seenMs <= GONE_MS) continue;
    const toMs = Math.min(nowMs, clock.seenMs + GONE_MS);
    clocks.push({ ...clock, ended: true });
    if (toMs <= clock.decidedMs) continue;
    const reason = isReplaced ? 'replaced' : 'gone';
    outages.push({ fromMs: clock.decidedMs, toMs, reason, addresses: [clock.address] });
  }
  return { clocks, outages };
}
