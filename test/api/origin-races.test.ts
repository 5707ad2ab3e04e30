// Origins while others change the same monitors: each origin has at most one monitor, whatever happens at once.
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { madeAgain, newOrigin, originCalls, shown, type TestOrigin } from './origin-fixture.ts';

let api: ApiFixture;
let calls: ReturnType<typeof originCalls>;
beforeAll(async () => {
  api = await openApiFixture();
  calls = originCalls(api);
});
afterAll(async () => {
  await api?.close();
});

/** The monitors that have the origin, by the database itself. */
async function holdersOf({ namespace, name }: TestOrigin): Promise<string[]> {
  const { rows } = await api.pool.query<{ monitor_id: string }>(
    'select monitor_id from monitors where project_id = $1 and origin_namespace = $2 and origin_name = $3',
    [api.projectId, namespace, name],
  );
  return rows.map((row) => row.monitor_id);
}

/** Runs `call` while another transaction holds the monitor, changes it by `text`, and commits. */
async function whileLocked<T>(monitorId: string, text: string, call: () => Promise<T>): Promise<T> {
  const holder = await api.pool.connect();
  try {
    await holder.query('begin');
    const { rows } = await holder.query(
      `select l.project_id, l.monitor_key from monitor_live l join monitors using (project_id, monitor_key)
       where monitor_id = $1 for update of l`,
      [monitorId],
    );
    const answer = call();
    await waitFor(async () => {
      const waiting = await api.pool.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return (waiting.rowCount ?? 0) > 0;
    });
    await holder.query(text, [rows[0].project_id, rows[0].monitor_key]);
    await holder.query('commit');
    return await answer;
  } finally {
    holder.release();
  }
}

describe('calls at the same time', () => {
  it('of monitors that are created with one origin one is made, and the others learn its id', async () => {
    const origin = newOrigin();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => api.operator.call('createMonitor', { body: { name: 'Job', origin } })),
    );
    const made = answers.filter(({ problem }) => !problem).map(({ body }) => body.monitorId);
    expect(made).toHaveLength(1);
    for (const { problem } of answers.filter(({ problem }) => problem)) {
      expect(problem).toMatchObject({ code: 'service.origin_taken', monitorId: made[0] });
    }
  });

  it('that give one origin to two monitors both succeed, and one of the two has it', async () => {
    const origin = newOrigin();
    const { monitorId: holder } = await calls.create({ origin });
    const [one, two] = [await calls.create(), await calls.create()].map(({ monitorId }) => monitorId);
    for (let round = 0; round < 10; round += 1) {
      await Promise.all([
        calls.setOrigin(one ?? '', madeAgain(origin)),
        calls.setOrigin(two ?? '', madeAgain(origin)),
      ]);
      const holders = await holdersOf(origin);
      expect(holders).toHaveLength(1);
      expect(holders).not.toContain(holder);
    }
  });

  it('a monitor that is taken over while a sweeper counts its miss starts from what the sweeper wrote', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin, awaitFirstBeat: false, missedBeatsToOpen: 2 });
    const missed = `update monitor_live set missed_count = 1, deadline_ms = deadline_ms + 1000, wake_ms = wake_ms + 1000
      where project_id = $1 and monitor_key = $2`;
    const { body } = await whileLocked(monitorId, missed, () =>
      calls.setOrigin(monitorId, madeAgain(origin)),
    );
    expect(Date.parse(body.status.nextDeadlineAt ?? '')).toBe(
      Date.parse(body.updatedAt) + 3_600_000 + 300_000,
    );
    const { rows } = await api.pool.query(
      `select missed_count from monitor_live join monitors using (project_id, monitor_key) where monitor_id = $1`,
      [monitorId],
    );
    expect(rows).toEqual([{ missed_count: 0 }]);
  });

  it('a monitor that is taken over while a beat arrives keeps the beat', async () => {
    const origin = newOrigin();
    const { monitorId, publishUrl } = await calls.create({ origin });
    await Promise.all([
      calls.setOrigin(monitorId, madeAgain(origin)),
      fetch(`${api.url}${new URL(publishUrl ?? '').pathname}`),
    ]);
    const { status } = await calls.read(monitorId);
    expect(status).toMatchObject({ lastSequence: 1, health: 'up' });
    expect(status.nextDeadlineAt).toBeDefined();
  });

  it('a monitor whose holder is deleted meanwhile gets the origin', async () => {
    const origin = newOrigin();
    const holder = await calls.create({ origin });
    const { monitorId } = await calls.create();
    const deleted = `with live as (delete from monitor_live where project_id = $1 and monitor_key = $2)
      delete from monitors where project_id = $1 and monitor_key = $2`;
    const { body } = await whileLocked(holder.monitorId, deleted, () => calls.setOrigin(monitorId, origin));
    expect(body.origin).toMatchObject(shown(origin));
  });

  it('a report never marks a monitor whose origin was released meanwhile', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin });
    const released = `update monitors set origin_kind = null, origin_namespace = null, origin_name = null,
      origin_uid = null where project_id = $1 and monitor_key = $2`;
    const counts = await whileLocked(monitorId, released, () => calls.report({ orphaned: [monitorId] }));
    expect(counts).toEqual({ orphaned: 0, seen: 0 });
  });
});

const COUNT = 3;
const step = fc.record({
  what: fc.constantFrom('create', 'set', 'release', 'archive', 'expire', 'delete', 'orphaned', 'seen'),
  monitor: fc.nat({ max: COUNT - 1 }),
  origin: fc.nat({ max: COUNT - 1 }),
});
interface Known {
  origin?: number;
  archived: boolean;
  expired: boolean;
  orphaned: boolean;
}

describe('any sequence of calls', () => {
  it('leaves each origin with the monitor that a simple model gives it to', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
        const names = Array.from({ length: COUNT }, () => `m-${randomUUID()}`);
        const origins = Array.from({ length: COUNT }, newOrigin);
        const known = new Map<number, Known>();
        const holderOf = (origin: number) => [...known].find(([, one]) => one.origin === origin);
        for (const { what, monitor, origin } of steps) {
          const id = names[monitor] ?? '';
          const one = known.get(monitor);
          const declared = origins[origin] ?? newOrigin();
          if (what === 'create' && !one) {
            const [holder, held] = holderOf(origin) ?? [];
            const body = { monitorId: id, name: 'Job', origin: declared };
            const { problem } = await api.operator.call('createMonitor', { body });
            if (holder === undefined || held?.expired) {
              expect(problem).toBeUndefined();
              if (held) Object.assign(held, { origin: undefined, orphaned: false });
              known.set(monitor, { origin, archived: false, expired: false, orphaned: false });
            } else {
              expect(problem).toMatchObject({ code: 'service.origin_taken', monitorId: names[holder] });
            }
          }
          if (!one) continue;
          if (what === 'set') {
            await calls.setOrigin(id, declared);
            const [, held] = holderOf(origin) ?? [];
            if (held && held !== one) Object.assign(held, { origin: undefined, orphaned: false });
            Object.assign(one, { origin, orphaned: false });
          }
          if (what === 'release') {
            await calls.setOrigin(id, null);
            Object.assign(one, { origin: undefined, orphaned: false });
          }
          if (what === 'archive' && !one.archived) {
            await calls.changeLifecycle(id, 'archive');
            one.archived = true;
          }
          if (what === 'expire' && one.archived) {
            await calls.letRestoreWindowPass(id);
            one.expired = true;
          }
          if (what === 'delete') {
            await calls.deleteMonitor(id);
            known.delete(monitor);
          }
          if ((what === 'orphaned' || what === 'seen') && one.origin !== undefined) {
            await calls.report({ [what]: [id] });
            // An archived monitor has ended as its object has.
            if (what === 'seen' || !one.archived) one.orphaned = what === 'orphaned';
          }
        }
        for (const [monitor, one] of known) {
          const { origin } = await calls.read(names[monitor] ?? '');
          expect(origin?.name).toBe(one.origin === undefined ? undefined : origins[one.origin]?.name);
          expect(origin?.orphanedAt !== undefined).toBe(one.orphaned);
        }
        for (const [index, origin] of origins.entries()) {
          const [holder] = holderOf(index) ?? [];
          expect(await holdersOf(origin)).toEqual(holder === undefined ? [] : [names[holder]]);
        }
      }),
      { numRuns: 25 },
    );
  });
});
