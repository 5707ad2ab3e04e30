// Sums up observations by hours, for the series of times whose observations are dropped. What holds up one piece of them
// holds up no other one for long: nothing is dropped before all of it is summed up.
import { readSummedUntil } from '../../store/beats/observation-sums.ts';
import { codeOf, isFaultOfData, isTimedOut } from '../../store/postgres/database-error.ts';
import { skipPiece, sumUpStep } from '../../store/upkeep/observation-hours.ts';
import type { Piece } from '../../store/upkeep/observation-pieces.ts';
import type { RunResult } from '../loop.ts';
import type { Job, JobDeps } from './job.ts';

const DAY_SECONDS = 86_400;

export interface SumsLimits {
  /** Observations of the largest piece, and of the smallest one. */
  most: number;
  least: number;
  /** So often in a row the smallest piece may fail, where not for its data. A try takes a minute, or follows one. */
  failures: number;
  /** The longest statement; default as sumUpStep. */
  statementMs?: number;
}

const LIMITS: SumsLimits = { most: 16_000_000, least: 1_000, failures: 30 };
const MOST_MONITORS = 50_000;
/** After a failure a piece has so many times less; after a success twice as much. */
const SHRINK = 8;

// SQLSTATE classes: data, integrity, insufficient resources, program limits, and pages that cannot be read.
const MAY_PASS_IN_PARTS = /^(2[23]|5[34]|XX)/;
const isOfPiece = (error: unknown) => isTimedOut(error) || MAY_PASS_IN_PARTS.test(codeOf(error) ?? '');
/** A disk that is full is nobody's fault. */
const isOfMachine = (error: unknown) => codeOf(error)?.startsWith('53') === true;

/**
 * Each step is one bounded transaction. A piece that takes too long, or has a fault, is tried again in smaller ones, down
 * to few observations of one monitor. If those fail too, they are skipped and logged.
 */
export function createSums(limits = LIMITS): Job['step'] {
  const { most, least, statementMs } = limits;
  let observations = most;
  let failures = 0;
  const onFailure = async ({ slowPool, log }: JobDeps, err: unknown, piece: Piece | undefined) => {
    if (observations > least) {
      observations = Math.max(least, Math.floor(observations / SHRINK));
      log.warn({ err, observations }, 'Observations could not be summed up. Smaller pieces are tried.');
      return;
    }
    failures += 1;
    const isLasting = isFaultOfData(err) || (failures >= limits.failures && !isOfMachine(err));
    if (!piece || !isLasting) throw err;
    await skipPiece(slowPool, piece);
    failures = 0;
    const { last, observations: count, place } = piece;
    log.error(
      { err, ...last, observations: count, fromMs: place.fromMs, toMs: place.toMs },
      'Observations of a monitor could not be summed up. Its series is without them when they are dropped.',
    );
  };
  return async (deps) => {
    let piece: Piece | undefined;
    const monitors = observations > least ? MOST_MONITORS : 1;
    try {
      const result = await sumUpStep(deps.slowPool, { monitors, observations, statementMs }, (tried) => {
        piece = tried;
      });
      observations = Math.min(most, observations * 2);
      failures = 0;
      return result === 'worked' ? 'more' : 'idle';
    } catch (error) {
      if (!isOfPiece(error)) throw error;
      await onFailure(deps, error, piece);
      return 'more';
    }
  };
}

/** Every replica measures it itself, as one that holds no lease would show an old number. */
export async function watchSums({ pool, metrics }: Pick<JobDeps, 'pool' | 'metrics'>): Promise<RunResult> {
  const { nowMs, summedMs } = await readSummedUntil(pool);
  metrics.sumsLag.set(Math.max(0, (nowMs - summedMs) / 1000 - DAY_SECONDS));
  return 'idle';
}
