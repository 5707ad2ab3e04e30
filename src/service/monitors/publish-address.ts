// Rotation of a monitor's publish address, which is the only secret that a beat needs.
import { randomUUID } from 'node:crypto';
import { endPublishAddresses, insertPublishAddress } from '../../store/beats/publish-addresses.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { lockMonitor, saveMonitor, type VersionedName } from './monitor-access.ts';

export interface RotatedAddress {
  monitor: MonitorRecord;
  /** ms; undefined when the old address ended at once. */
  previousEndsMs?: number;
}

/**
 * Replaces the address; the old one works for `overlapSeconds` more. The configuration version rises, so that a
 * rotation that is sent twice is refused the second time, and ingest drops its cached copy of the monitor.
 * Throws `not_found`, `conflict` and `precondition_failed`.
 */
export async function rotatePublishAddress(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  rotation: { name: VersionedName; overlapSeconds: number },
): Promise<RotatedAddress> {
  const { record, nowMs } = await lockMonitor(tx, context, rotation.name);
  const { overlapSeconds } = rotation;
  const previousEndsMs = overlapSeconds === 0 ? undefined : nowMs + overlapSeconds * 1000;
  await endPublishAddresses(tx, record, previousEndsMs);
  const publishAddress = randomUUID();
  await insertPublishAddress(tx, record, publishAddress);
  const changed = { ...record, publishAddress };
  const monitor = await saveMonitor(
    tx,
    caller,
    { record: changed, live: record.live, change: { kind: 'configuration' } },
    nowMs,
  );
  return { monitor, previousEndsMs };
}
