import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { ClaimedDelivery } from '../../../src/store/deliveries/delivery-queue.ts';
import type { Pool } from '../../../src/store/postgres/pool.ts';
import type { SecretBox } from '../../../src/store/postgres/secret-box.ts';
import { OutcomeWriter } from '../../../src/sweeper/deliveries/outcome-writer.ts';
import { createLog } from '../../../src/telemetry/log.ts';

const TIMEOUT_MS = 40;

/** The endpoints of each batch, in the order in which they were tried. */
let batches: string[][] = [];
/** Their outcomes time out. */
const slow = new Set<string>();
let writer: OutcomeWriter;

afterEach(async () => {
  slow.clear();
  await writer.stop();
});

function start(): void {
  batches = [];
  const query = async ({ values = [] }: { values?: unknown[] }) => {
    // The results are one text.
    const results = values.find((value) => String(value).startsWith('['));
    const endpoints = JSON.parse(String(results)).map(
      (result: { endpoint_id: string }) => result.endpoint_id,
    );
    batches.push(endpoints);
    if (endpoints.some((endpoint: string) => slow.has(endpoint))) {
      await sleep(TIMEOUT_MS);
      throw Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
    }
    return { rows: [{ now_ms: 0, busy: null, delivery_id: null }] };
  };
  writer = new OutcomeWriter({
    pool: { query } as unknown as Pool,
    secrets: {} as SecretBox,
    owner: 'test',
    log: createLog({ role: 'test', level: 'fatal' }),
    onWritten: () => undefined,
  });
}

/** Resolves when the outcome is written. */
function add(endpointId: string): Promise<void> {
  const endpoint = { projectId: 'p', endpointId };
  const claim = { projectId: 'p', deliveryId: `to ${endpointId}`, endpoint, attemptCount: 0 };
  return new Promise((resolve) => {
    writer.add({ claim: claim as ClaimedDelivery, kind: 'postponed', by: 'fault', waitMs: 1 }, resolve);
  });
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(1);
}

describe('the batches of outcomes', () => {
  it.each([3, 6])(
    '%i endpoints whose outcomes time out hold up no other, and each has its turn',
    async (count) => {
      start();
      const names = Array.from({ length: count }, (_, index) => `slow${index}`);
      for (const name of names) slow.add(name);
      const ends = names.map(add);
      const tries = (name: string) =>
        batches.filter((batch) => batch.length === 1 && batch[0] === name).length;
      await until(() => names.every((name) => tries(name) >= 2));
      for (let round = 0; round < 5; round += 1) {
        const before = batches.length;
        await Promise.all([add('one'), add('other')]);
        const between = batches.slice(before).filter((batch) => batch.some((name) => slow.has(name)));
        expect(between.length).toBeLessThanOrEqual(2);
      }
      slow.clear();
      await Promise.all(ends);
    },
  );
});
