// Publish addresses: the random UUIDs that beats are sent to. The beat path finds monitors by them (beats.ts).
import type { MonitorRef } from '../monitors/live.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

export async function insertPublishAddress(tx: Queryable, ref: MonitorRef, address: string): Promise<void> {
  await tx.query({
    name: 'insert-publish-address',
    text: 'insert into publish_addresses (address, project_id, monitor_key) values ($1, $2, $3)',
    values: [address, ref.projectId, ref.monitorKey],
  });
}

/**
 * Ends every working address of a monitor at `endsMs`, or at once. An address with an earlier end keeps it, so that a
 * rotation never makes a leaked address live longer. The caller has locked the live row.
 */
export async function endPublishAddresses(
  tx: Queryable,
  ref: MonitorRef,
  endsMs: number | undefined,
): Promise<void> {
  const keys = [ref.projectId, ref.monitorKey];
  if (endsMs === undefined) {
    await tx.query('delete from publish_addresses where project_id = $1 and monitor_key = $2', keys);
    return;
  }
  await tx.query(
    `update publish_addresses set ends_at = least(ends_at, ${fromMillis('$3')})
     where project_id = $1 and monitor_key = $2`,
    [...keys, endsMs],
  );
}
