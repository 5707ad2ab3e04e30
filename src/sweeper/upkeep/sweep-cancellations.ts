// Cancels what is pending at endpoints that were disabled or removed, and of monitors that were deleted.
import { carryOutCancellation } from '../../service/deliveries/delivery-cancellation.ts';
import { takeCancellation } from '../../store/deliveries/cancellations.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

/** Deliveries of one transaction, which an outcome of theirs may have to wait for. */
export const CANCELED_AT_ONCE = 500;

/** One batch of the cancellation whose turn it is. */
export async function sweepCancellations({ pool }: Pick<JobDeps, 'pool'>): Promise<RunResult> {
  const cancellation = await takeCancellation(pool);
  if (!cancellation) return 'idle';
  const { count, isDone } = await inTransaction(pool, (tx) =>
    carryOutCancellation(tx, cancellation, CANCELED_AT_ONCE),
  );
  // What is left while nothing could be canceled is locked: its outcome is being written.
  return count > 0 || isDone ? 'more' : 'idle';
}
