// Seals every value again that was sealed with another key than the first, so that the others can be removed
// (docs/operations.md, Encryption keys), and shows how many values each key has sealed.
import type { Purpose, SecretBox } from '../../store/postgres/secret-box.ts';
import {
  countSealedValues,
  findSealedValues,
  type ResealedValue,
  type RowName,
  replaceSealedValues,
  SEALED_TABLES,
  type SealedTable,
  type SealedValue,
} from '../../store/upkeep/sealed-values.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { Job, JobDeps } from './job.ts';

const BATCH = 500;
const COUNTED = 10_000;

/** The values of one table that one key has sealed. */
interface Range {
  table: SealedTable;
  keyId: string;
}

/**
 * The step of the job, with the place to which its pass has come: a value that does not open is passed over, and met
 * again by the next pass. Nothing else depends on the place, so a pass may stop after any step, and several may run at
 * once. While replicas have the keys in different orders, they seal each other's values again; the last order wins.
 */
export function createSealedValuesSweep(): Job['step'] {
  let at = 0;
  let after: RowName | undefined;
  return async (deps) => {
    const ranges = rangesOf(deps.secrets);
    for (; at < ranges.length; at += 1, after = undefined) {
      const range = ranges[at] as Range;
      const found = await findSealedValues(deps.pool, range.table, {
        keyId: range.keyId,
        after,
        limit: BATCH,
      });
      await sealAgain(deps, range, found);
      after = found.at(-1)?.row;
      if (found.length === BATCH) return 'more';
    }
    at = 0;
    return 'idle';
  };
}

function rangesOf({ keyIds: [, ...others] }: SecretBox): Range[] {
  return SEALED_TABLES.flatMap((table) => others.map((keyId) => ({ table, keyId })));
}

async function sealAgain(
  { pool, secrets, log }: JobDeps,
  { table, keyId }: Range,
  found: readonly SealedValue[],
): Promise<void> {
  const resealed: ResealedValue[] = [];
  const failures: unknown[] = [];
  for (const value of found) {
    const place = table.placeOf(value.row);
    try {
      resealed.push({ ...value, newBox: secrets.seal(secrets.open(value.box, place), place) });
    } catch (error) {
      failures.push(error);
    }
  }
  const about = { keyId, kind: table.purpose };
  const count = await replaceSealedValues(pool, table, resealed);
  if (count > 0) log.info({ ...about, count }, 'Sealed values have the first encryption key now.');
  if (failures.length === 0) return;
  log.error(
    { ...about, count: failures.length, err: failures[0] },
    'Sealed values do not open with the key of this id: another key had the same id, or they were changed.',
  );
}

/**
 * Every replica counts by itself, as in `watchDefaultPartitions`. A key that is configured and has sealed nothing shows 0:
 * it can go.
 */
export async function watchSealedValues({ pool, secrets, metrics, log }: JobDeps): Promise<RunResult> {
  const counts: { labels: { key_id: string; kind: string; configured: 'yes' | 'no' }; count: number }[] = [];
  for (const table of SEALED_TABLES) {
    const found = await countSealedValues(pool, table, COUNTED);
    for (const keyId of new Set([...secrets.keyIds, ...found.keys()])) {
      const configured = secrets.keyIds.includes(keyId) ? 'yes' : 'no';
      const count = found.get(keyId) ?? 0;
      counts.push({ labels: { key_id: keyId, kind: table.purpose, configured }, count });
      if (configured === 'no') reportMissingKey(log, { keyId, kind: table.purpose, count });
    }
  }
  // All at once: a scrape sees no half of it.
  metrics.sealedValues.reset();
  for (const { labels, count } of counts) metrics.sealedValues.set(labels, count);
  return 'idle';
}

function reportMissingKey(log: Log, about: { keyId: string; kind: Purpose; count: number }): void {
  if (about.kind === 'answer')
    log.warn(
      about,
      'Answers of calls are sealed with an encryption key that is not configured. Repetitions of these calls fail. Add the key to BEATKEEPER_ENCRYPTION_KEYS, or wait until the answers expire, after 24 hours.',
    );
  else
    log.error(
      about,
      'Values are sealed with an encryption key that is not configured. Add it to BEATKEEPER_ENCRYPTION_KEYS: alerts to these endpoints wait.',
    );
}
