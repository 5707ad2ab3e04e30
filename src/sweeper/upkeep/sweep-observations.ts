// Deletes observations that a plan keeps for a shorter time than their partitions stay, or not so many of
// (docs/contract/organization.md).
import { isPlanId } from '../../domain/plan.ts';
import { keptFromMs, STANDARD_RETENTION_MS } from '../../domain/retention.ts';
import { readSummedUntil } from '../../store/beats/observation-sums.ts';
import { isTimedOut } from '../../store/postgres/database-error.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import {
  deleteBeyondPlan,
  findNextKey,
  findNextProject,
  findPlanId,
  type LimitedRows,
} from '../../store/upkeep/observation-limits.ts';
import type { Job, JobDeps } from './job.ts';

export interface ObservationSweepLimits {
  /** Of one statement: monitors, and observations of each. */
  monitors: number;
  observations: number;
  /** Statements of a step. */
  statements: number;
}

const LIMITS: ObservationSweepLimits = { monitors: 1_000, observations: 100, statements: 50 };
/** After a statement that took too long the next one has so many times fewer monitors; after another one twice as many. */
const SHRINK = 8;

/** Where a pass is: in a project, after one of its monitors. What else holds is read again for each statement. */
interface Place {
  projectId: string;
  afterKey?: string;
  /** As `LimitedPage` has it. */
  from: ReadonlyMap<string, number>;
}

/**
 * The step of the job, with the place to which its pass has come. Nothing else depends on the place: a pass may stop after
 * any step, go on days later, and several may run at once. A monitor whose statement takes too long by itself is left to
 * the next pass.
 */
export function createObservationSweep(limits = LIMITS): Job['step'] {
  let place: Place | undefined;
  let monitors = limits.monitors;
  return async (deps) => {
    place ??= await findPlace(deps, undefined);
    for (let statement = 0; place !== undefined && statement < limits.statements; statement += 1) {
      const tried: Place = place;
      try {
        place = await sweepPage(deps, tried, { ...limits, monitors });
        monitors = Math.min(limits.monitors, monitors * 2);
      } catch (error) {
        if (!isTimedOut(error)) throw error;
        if (monitors === 1) place = await skipMonitor(deps, tried, error);
        monitors = Math.max(1, Math.floor(monitors / SHRINK));
      }
    }
    return place ? 'more' : 'idle';
  };
}

type Deps = Pick<JobDeps, 'pool' | 'metrics' | 'findPlan' | 'log'>;

async function findPlace({ pool }: Deps, afterId: string | undefined): Promise<Place | undefined> {
  const projectId = await findNextProject(pool, afterId);
  return projectId === undefined ? undefined : { projectId, from: new Map() };
}

async function skipMonitor(deps: Deps, place: Place, err: unknown): Promise<Place | undefined> {
  const { projectId } = place;
  const monitorKey = await findNextKey(deps.pool, projectId, place.afterKey);
  deps.log.warn(
    { err, projectId, monitorKey },
    'Observations that the plan does not keep could not be deleted in time. The next pass tries again.',
  );
  return monitorKey === undefined
    ? await findPlace(deps, projectId)
    : { projectId, afterKey: monitorKey, from: new Map() };
}

/** Returns where to go on. Of a page with something to delete there may be more to delete. */
async function sweepPage(
  deps: Deps,
  place: Place,
  limits: ObservationSweepLimits,
): Promise<Place | undefined> {
  const rows = await deletePage(deps, place, limits);
  if (rows && rows.deleted > 0) {
    deps.metrics.rowsRetired.inc({ what: 'observations_of_plan' }, rows.deleted);
    return { ...place, from: rows.next };
  }
  return rows?.isFull
    ? { projectId: place.projectId, afterKey: rows.lastKey, from: new Map() }
    : await findPlace(deps, place.projectId);
}

/**
 * The plan is read with each statement: it may be another one since the last. Undefined: the project has none, or one of a
 * newer version, whose limits nobody knows here. Reads hide as much as on the smallest plan; nothing is deleted.
 */
async function deletePage(
  { pool, findPlan }: Deps,
  { projectId, afterKey, from }: Place,
  limits: ObservationSweepLimits,
): Promise<LimitedRows | undefined> {
  const { nowMs, summedMs } = await readSummedUntil(pool);
  return await inTransaction(pool, async (tx) => {
    const planId = await findPlanId(tx, projectId);
    if (planId === undefined || !isPlanId(planId)) return undefined;
    const { observationRetentionSeconds, storedObservations } = findPlan(planId);
    const retentionMs = observationRetentionSeconds * 1000;
    return await deleteBeyondPlan(tx, {
      ...{ projectId, afterKey, from, storedObservations, summedMs },
      keptFromMs: retentionMs < STANDARD_RETENTION_MS ? keptFromMs(nowMs, retentionMs) : undefined,
      ...limits,
    });
  });
}
