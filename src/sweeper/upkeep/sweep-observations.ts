// Deletes observations that a plan keeps for a shorter time than their partitions stay, or not so many of
// (docs/contract/organization.md).
import { keptFromMs, STANDARD_RETENTION_MS } from '../../domain/retention.ts';
import { readSummedUntil } from '../../store/beats/observation-sums.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import {
  deleteBeyondPlan,
  findNextProject,
  type LimitedRows,
  type ProjectPlan,
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

/** Where a pass is: at a project, after one of its monitors. */
interface Place {
  project: ProjectPlan;
  afterKey: string | undefined;
}

/**
 * The step of the job, with the place to which its pass has come. Nothing else depends on the place: a pass may stop after
 * any step, and several may run at once.
 */
export function createObservationSweep(limits = LIMITS): Job['step'] {
  let place: Place | undefined;
  return async (deps) => {
    place ??= await findPlace(deps, undefined);
    for (let statement = 0; place && statement < limits.statements; statement += 1)
      place = await sweepPage(deps, place, limits);
    return place ? 'more' : 'idle';
  };
}

type Deps = Pick<JobDeps, 'pool' | 'metrics' | 'findPlan'>;

async function findPlace({ pool }: Deps, after: ProjectPlan | undefined): Promise<Place | undefined> {
  const project = await findNextProject(pool, after?.projectId);
  return project && { project, afterKey: undefined };
}

/** Returns where to go on. Of a page with something to delete there may be more to delete. */
async function sweepPage(
  deps: Deps,
  place: Place,
  limits: ObservationSweepLimits,
): Promise<Place | undefined> {
  const { deleted, lastKey, isFull } = await deletePage(deps, place, limits);
  if (deleted > 0) {
    deps.metrics.rowsRetired.inc({ what: 'observations_of_plan' }, deleted);
    return place;
  }
  return isFull ? { ...place, afterKey: lastKey } : await findPlace(deps, place.project);
}

async function deletePage(
  { pool, findPlan }: Deps,
  { project, afterKey }: Place,
  limits: ObservationSweepLimits,
): Promise<LimitedRows> {
  const { observationRetentionSeconds, storedObservations } = findPlan(project.planId);
  const retentionMs = observationRetentionSeconds * 1000;
  const { nowMs, summedMs } = await readSummedUntil(pool);
  return await inTransaction(pool, (tx) =>
    deleteBeyondPlan(tx, {
      projectId: project.projectId,
      afterKey,
      keptFromMs: retentionMs < STANDARD_RETENTION_MS ? keptFromMs(nowMs, retentionMs) : undefined,
      storedObservations,
      summedMs,
      ...limits,
    }),
  );
}
