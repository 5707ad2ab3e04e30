// The statement of plain beats and the state machine must agree: in every state of a monitor, the row and the answer
// are those of domain/beat.ts. Random states, real Postgres.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { applyBeat } from '../../src/domain/beat.ts';
import { findPlan, takeToken } from '../../src/domain/plan.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { isPlain, runPlainBeats } from '../../src/ingest/plain-beats.ts';
import { LIVE_COLUMNS, lockLive, toLiveRow, updateLive } from '../../src/store/monitors/live.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitor, seedMonitors } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let pool: Pool;
let lane: Lane;
let directory: MonitorDirectory;
let monitor: SeedMonitor;

beforeAll(async () => {
  fixture = await openProjectFixture();
  pool = fixture.pool;
  directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000 });
  lane = await openLane();
  monitor = await seedMonitor(pool, fixture.project);
});
afterAll(async () => {
  await lane?.close();
  await fixture?.close();
});

/** A connected lane. On a busy machine it may need several tries, as in the batcher. */
async function openLane(): Promise<Lane> {
  const opened = new Lane(fixture.databaseUrl);
  const connect = () => opened.write((connection) => connection.query('select 1'));
  await waitFor(connect, { what: 'the lane is connected' });
  return opened;
}

const agoMs = fc.option(fc.integer({ min: 0, max: 500_000 }), { nil: undefined });
const state = fc.record({
  wakeInMs: fc.option(fc.integer({ min: -20_000, max: 80_000 }), { nil: undefined }),
  lastSequence: fc.integer({ min: 0, max: 2 ** 40 }),
  deadlineInMs: fc.option(fc.integer({ min: -100_000, max: 500_000 }), { nil: undefined }),
  firstBeatAgoMs: agoMs,
  missedCount: fc.integer({ min: 0, max: 9 }),
  openIncidents: fc.constantFrom(0, 0, 0, 1),
  hasRun: fc.constantFrom(false, false, true),
  tokens: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined }),
  tokensAgoMs: fc.integer({ min: 0, max: 2000 }),
  unmovedInMs: fc.option(fc.integer({ min: 0, max: 1000 }), { nil: undefined }),
  rests: fc.constantFrom(false, false, false, true),
  staleConfiguration: fc.constantFrom(false, false, false, true),
  count: fc.integer({ min: 1, max: 4 }),
});

it('the statement of plain beats writes and answers what the state machine does, or leaves the row unchanged', async () => {
  const entry = await directory.load(monitor.address);
  if (!entry) throw new Error('the address was not found');
  await fc.assert(
    fc.asyncProperty(state, async (drawn) => {
      const { rows: clock } = await pool.query(
        'select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms',
      );
      const nowMs: number = clock[0].ms;
      const before = {
        wakeMs: drawn.wakeInMs === undefined ? undefined : nowMs + drawn.wakeInMs,
        lastSequence: drawn.lastSequence,
        deadlineMs: drawn.deadlineInMs === undefined ? undefined : nowMs + drawn.deadlineInMs,
        firstBeatMs: drawn.firstBeatAgoMs === undefined ? undefined : nowMs - drawn.firstBeatAgoMs,
        missedCount: drawn.missedCount,
        openIncidents: drawn.openIncidents,
        openRuns: drawn.hasRun ? [{ startedMs: nowMs - 1000 }] : [],
        gaps: [],
        gapBroken: false,
        tokens: drawn.tokens,
        tokensMs: drawn.tokens === undefined ? undefined : nowMs - drawn.tokensAgoMs,
        unmovedMs: drawn.unmovedInMs === undefined ? undefined : nowMs + drawn.unmovedInMs,
        restsSinceMs: drawn.rests ? nowMs - 1000 : undefined,
      };
      const configurationVersion = drawn.staleConfiguration ? 2 : 1;
      await updateLive(pool, [{ ...monitor, configurationVersion, live: before }]);
      const items = Array.from({ length: drawn.count }, () => ({
        entry,
        beat: { kind: 'success' as const },
      }));
      expect(items.every(isPlain)).toBe(true);

      const outcomes = await lane.write((connection, of) => runPlainBeats(connection, items, of));
      const { rows } = await pool.query(`select ${LIVE_COLUMNS} from monitor_live l where monitor_key = $1`, [
        monitor.monitorKey,
      ]);
      const after = toLiveRow(rows[0]).live;

      const [first] = outcomes;
      if (first === 'ineligible' || first === undefined) {
        expect(new Set(outcomes)).toEqual(new Set(['ineligible']));
        expect(after).toEqual({ ...before, anchorMs: undefined });
        return;
      }
      const beatMs = after.lastBeatMs ?? 0;
      let model: typeof after = { ...after, ...before };
      const perMinute = findPlan('scale').beatsPerMinute;
      for (const outcome of outcomes) {
        if (outcome === 'ineligible' || !('answer' in outcome)) throw new Error('a plain beat was refused');
        const bucket = takeToken(model, perMinute, beatMs);
        expect(bucket.allowed).toBe(true);
        const counted = { ...model, tokens: bucket.tokens, tokensMs: bucket.tokensMs };
        const result = applyBeat(entry.monitor.timing, counted, [], { kind: 'success' }, beatMs);
        expect(result.late).toBe(false);
        expect(outcome.answer.sequence).toBe(result.sequence);
        expect(outcome.answer.nextDeadlineAt).toBe(new Date(result.live.deadlineMs ?? 0).toISOString());
        model = result.live;
      }
      expect({ ...after, tokens: 0 }).toEqual({ ...model, tokens: 0 });
      expect(after.tokens).toBeCloseTo(model.tokens ?? 0, 2);
    }),
    { numRuns: 150 },
  );
});

it('only a success without detail for an active monitor with a fixed interval and no measurements is plain', async () => {
  const entry = await directory.load(monitor.address);
  if (!entry) throw new Error('the address was not found');
  const plain = { entry, beat: { kind: 'success' as const } };
  expect(isPlain(plain)).toBe(true);
  expect(isPlain({ ...plain, idempotencyKey: 'k' })).toBe(false);
  for (const beat of [
    { kind: 'fail' as const },
    { kind: 'success' as const, message: 'm' },
    { kind: 'success' as const, runId: 'r' },
    { kind: 'success' as const, exitStatus: 0 },
    { kind: 'success' as const, measurements: { rows: 1 } },
  ]) {
    expect(isPlain({ entry, beat })).toBe(false);
  }
  for (const timing of [
    { lifecycle: 'paused' as const },
    { intervalMs: undefined },
    { schedule: { nextAfter: () => 0 } },
    { maintenance: { startsMs: 0, endsMs: 1 } },
  ]) {
    const changed = {
      ...entry,
      monitor: { ...entry.monitor, timing: { ...entry.monitor.timing, ...timing } },
    };
    expect(isPlain({ ...plain, entry: changed })).toBe(false);
  }
  const measured = await seedMonitor(pool, fixture.project, {
    configuration: { measurements: { rows: { minimum: 1 } } },
  });
  const withMeasurements = await directory.load(measured.address);
  if (!withMeasurements) throw new Error('the address was not found');
  expect(isPlain({ ...plain, entry: withMeasurements })).toBe(false);
});

it('two lanes that write the same rows never deadlock because both lock in key order', async () => {
  const monitors = await seedMonitors(pool, fixture.project, 60);
  const entries = await Promise.all(monitors.map((seeded) => directory.load(seeded.address)));
  const items = entries.flatMap((entry) => (entry ? [{ entry, beat: { kind: 'success' as const } }] : []));
  const other = await openLane();
  // A deadlock shows itself after a second; the lanes' own limit would hide it.
  for (const each of [lane, other])
    await each.write((connection) => connection.query('set lock_timeout = 0'));
  const deadlocksBefore = await countDeadlocks();
  try {
    for (let round = 0; round < 40; round += 1) {
      const shuffled = [...items].sort(() => Math.random() - 0.5);
      const locking = pool.connect().then(async (tx) => {
        await tx.query('begin');
        await lockLive(tx, [...monitors].reverse());
        await tx.query('commit');
        tx.release();
      });
      await Promise.all([
        lane.write((connection, of) => runPlainBeats(connection, shuffled, of)),
        other.write((connection, of) => runPlainBeats(connection, [...shuffled].reverse(), of)),
        locking,
      ]);
    }
  } finally {
    await other.close();
  }
  expect(await countDeadlocks()).toBe(deadlocksBefore);
});

async function countDeadlocks(): Promise<number> {
  const { rows } = await pool.query(
    'select deadlocks from pg_stat_database where datname = current_database()',
  );
  return rows[0].deadlocks;
}
