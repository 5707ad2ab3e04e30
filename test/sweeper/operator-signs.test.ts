// The sweep of deadlines for monitors that operators beat: judged up to the last sign of their operator, whose absence is an
// outage for them and for nobody else (docs/contract/deadlines.md, "While no operator leads").
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { OperatorPart } from '../../src/domain/operator-sign.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { insertOperator, readOperators, signOperator } from '../../src/store/upkeep/operator-signs.ts';
import { RETENTION_RULES } from '../../src/store/upkeep/retention.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import {
  type SeedMonitor,
  type SeedProject,
  seedMonitor,
  seedMonitors,
  seedProject,
} from '../support/seed.ts';
import { statementsOf } from '../support/statements.ts';
import { incidentsOf, liveOf, timelineOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;
let other: SeedProject;

beforeAll(async () => {
  fixture = await openProjectFixture();
  other = await seedProject(fixture.pool);
});
afterAll(() => fixture?.close());
beforeEach(async () => {
  await fixture.pool.query(
    'truncate service_outages, operator_signs, operator_outages, operator_part_outages',
  );
  await fixture.pool.query('update monitor_live set wake_ms = null');
});

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const OPERATOR = 'beatkeeper/beatkeeper@cluster';

/** Interval and grace are a minute each, as of `seedMonitors`; its last beat was `agoMs` ago. */
async function beaten(agoMs: number, options: { by?: string | null; project?: SeedProject } = {}) {
  const { by = OPERATOR, project = fixture.project } = options;
  return await seedMonitor(fixture.pool, project, await columns(agoMs, by));
}

async function columns(agoMs: number, by: string | null, configuration: object = {}, live: object = {}) {
  const beatMs = (await readNow(fixture.pool)) - agoMs;
  const deadlineMs = beatMs + 2 * MINUTE;
  return {
    configuration: { beaten_by: by, ...configuration },
    live: {
      ...{ anchor_ms: beatMs, first_beat_ms: beatMs, last_beat_ms: beatMs, last_success_ms: beatMs },
      ...{ last_sequence: 1, deadline_ms: deadlineMs, wake_ms: deadlineMs, ...live },
    },
  };
}

const ofOperator = ({ organizationId }: SeedProject = fixture.project) => ({
  organizationId,
  operatorId: OPERATOR,
});

/** The last sign was so long ago. */
async function signedAgo(agoMs: number, project?: SeedProject) {
  const operator = ofOperator(project);
  await insertOperator(fixture.pool, operator);
  await fixture.pool.query(
    'update operator_signs set seen_ms = $2 where organization_id = $1 and operator_id = $3',
    [operator.organizationId, (await readNow(fixture.pool)) - agoMs, OPERATOR],
  );
}
const sign = (project?: SeedProject) => signOperator(fixture.pool, ofOperator(project));

async function sweep() {
  await moveClock(fixture.pool);
  await drain(makeSweep(fixture.pool));
}
const kindsOf = async (monitor: SeedMonitor) =>
  (await incidentsOf(fixture.pool, monitor)).map(({ kind }) => kind);

/** As if the wake of a held monitor had come. */
const wakeAll = () => fixture.pool.query('update monitor_live set wake_ms = 1 where wake_ms is not null');

describe('an operator that gives signs', () => {
  it('its dead jobs are found as those of all others', async () => {
    await signedAgo(0);
    const dead = await beaten(2 * MINUTE + 5_000);
    const living = await beaten(30_000);
    await sweep();
    expect(await kindsOf(dead)).toEqual(['missed_deadline']);
    expect(await kindsOf(living)).toEqual([]);
    const [incident] = await incidentsOf(fixture.pool, dead);
    expect(await timelineOf(fixture.pool, incident.incident_id)).toMatchObject([{ type: 'opened' }]);
    // Until its operator has said what it sees.
    expect(incident.held_until).not.toBeNull();
  });

  it('a deadline after its last sign waits for the next one, a few seconds', async () => {
    await signedAgo(10_000);
    const dead = await beaten(2 * MINUTE + 5_000);
    await sweep();
    expect(await kindsOf(dead)).toEqual([]);
    const { wake_ms } = await liveOf(fixture.pool, dead);
    const waitsMs = wake_ms - (await readNow(fixture.pool));
    expect(waitsMs).toBeLessThanOrEqual(6_000);
    await sign();
    await wakeAll();
    await sweep();
    expect(await kindsOf(dead)).toEqual(['missed_deadline']);
  });
});

describe('an operator that gives none', () => {
  it('a deadline that it did not live to see opens nothing, however long it is away', async () => {
    await signedAgo(HOUR);
    const monitor = await beaten(50 * MINUTE);
    const before = await liveOf(fixture.pool, monitor);
    for (let looks = 0; looks < 3; looks += 1) {
      await sweep();
      const { wake_ms, room: _room, ...live } = await liveOf(fixture.pool, monitor);
      const waitsMs = wake_ms - (await readNow(fixture.pool));
      expect(waitsMs).toBeGreaterThan(10_000);
      expect(waitsMs).toBeLessThanOrEqual(MINUTE);
      // No status feed hears of it: nothing has changed.
      const { wake_ms: _wake, room: _full, ...untouched } = before;
      expect(live).toEqual(untouched);
      await wakeAll();
    }
    expect(await kindsOf(monitor)).toEqual([]);
  });

  it('one that never gave any judges nothing', async () => {
    const monitor = await beaten(HOUR);
    await sweep();
    expect(await kindsOf(monitor)).toEqual([]);
    expect((await liveOf(fixture.pool, monitor)).wake_ms).toBeGreaterThan(await readNow(fixture.pool));
  });

  it('a deadline before its last sign was judged, and is', async () => {
    await signedAgo(HOUR);
    const monitor = await beaten(HOUR + 5 * MINUTE);
    await sweep();
    expect(await kindsOf(monitor)).toEqual(['missed_deadline']);
  });

  it('holds up no monitor of another operator, of none, or of another organization', async () => {
    await signedAgo(HOUR);
    await signedAgo(0, other);
    await insertOperator(fixture.pool, { ...ofOperator(), operatorId: 'another' });
    const held = await beaten(50 * MINUTE);
    const others = [
      await beaten(50 * MINUTE, { by: null }),
      await beaten(50 * MINUTE, { by: 'another' }),
      await beaten(50 * MINUTE, { project: other }),
    ];
    await sweep();
    for (const monitor of others) expect(await kindsOf(monitor)).toEqual(['missed_deadline']);
    expect(await kindsOf(held)).toEqual([]);
  });

  it('no run is found overdue before it is back: it tells of each end before its next sign', async () => {
    await signedAgo(HOUR);
    const startedMs = (await readNow(fixture.pool)) - 90 * MINUTE;
    const runs = [
      { runId: 'a', startedMs, dueMs: startedMs + 10 * MINUTE },
      { runId: 'b', startedMs, dueMs: startedMs + 40 * MINUTE },
    ];
    const run = (index: number) => ({
      ...{ deadline_ms: null, wake_ms: 1, open_runs: [runs[index]] },
    });
    const limit = { max_runtime_seconds: 600 };
    const before = await seedMonitor(
      fixture.pool,
      fixture.project,
      await columns(HOUR, OPERATOR, limit, run(0)),
    );
    const during = await seedMonitor(
      fixture.pool,
      fixture.project,
      await columns(HOUR, OPERATOR, limit, run(1)),
    );
    await sweep();
    expect(await kindsOf(before)).toEqual(['overdue_run']);
    expect(await kindsOf(during)).toEqual([]);
    await sign();
    await wakeAll();
    await sweep();
    expect(await kindsOf(during)).toEqual(['overdue_run']);
  });
});

describe('an operator that comes back', () => {
  it('its absence is an outage for its monitors: a full interval and grace from its end, then the dead job is found', async () => {
    await signedAgo(HOUR);
    const monitor = await beaten(HOUR + MINUTE);
    const untouched = await beaten(HOUR + MINUTE, { by: null });
    await sweep();
    expect(await kindsOf(untouched)).toEqual(['missed_deadline']);
    const outage = await sign();
    if (!outage) throw new Error('no outage');
    await wakeAll();
    await sweep();
    expect(await kindsOf(monitor)).toEqual([]);
    const live = await liveOf(fixture.pool, monitor);
    expect(live).toMatchObject({
      deadline_ms: outage.toMs + 2 * MINUTE,
      unmoved_ms: live.anchor_ms + 2 * MINUTE,
    });
    // That time has passed as well, and the operator gave signs all along.
    const agoMs = 3 * MINUTE;
    await fixture.pool.query('update operator_outages set from_ms = from_ms - $1, to_ms = to_ms - $1', [
      agoMs,
    ]);
    await fixture.pool.query(
      `update monitor_live set anchor_ms = anchor_ms - $1, deadline_ms = deadline_ms - $1, unmoved_ms = unmoved_ms - $1, wake_ms = 1
       where monitor_key = $2`,
      [agoMs, monitor.monitorKey],
    );
    await sign();
    await sweep();
    const [incident] = await incidentsOf(fixture.pool, monitor);
    expect(incident).toMatchObject({ kind: 'missed_deadline', state: 'open' });
    expect(incident.deadline_at.getTime()).toBe(outage.toMs - agoMs + 2 * MINUTE);
    expect(await timelineOf(fixture.pool, incident.incident_id)).toContainEqual(
      expect.objectContaining({
        type: 'service_outage',
        detail: {
          from: new Date(outage.fromMs - agoMs).toISOString(),
          to: new Date(outage.toMs - agoMs).toISOString(),
          reason: 'no_operator',
        },
      }),
    );
  });

  it('outages of the service and of the operator are named each as what it was', async () => {
    await signedAgo(0);
    const nowMs = await readNow(fixture.pool);
    await fixture.pool.query('insert into service_outages (from_ms, to_ms, told) values ($1, $2, true)', [
      nowMs - 60 * MINUTE,
      nowMs - 55 * MINUTE,
    ]);
    await fixture.pool.query(
      'insert into operator_outages (organization_id, operator_id, from_ms, to_ms) values ($1, $2, $3, $4)',
      [fixture.project.organizationId, OPERATOR, nowMs - 58 * MINUTE, nowMs - 54 * MINUTE],
    );
    const monitor = await beaten(61 * MINUTE);
    await sweep();
    const [incident] = await incidentsOf(fixture.pool, monitor);
    const outages = (await timelineOf(fixture.pool, incident.incident_id)).filter(
      ({ type }) => type === 'service_outage',
    );
    expect(outages.map(({ detail }) => detail.reason)).toEqual([undefined, 'no_operator']);
    // Time in which both were away counts once.
    expect(incident.deadline_at.getTime()).toBe(nowMs - 54 * MINUTE + 2 * MINUTE);
  });
});

describe('an operator that leaves a part of its monitors out', () => {
  const leaveOut = (...behind: OperatorPart[]) => signOperator(fixture.pool, ofOperator(), behind);
  const monitorIdOf = async ({ monitorKey }: SeedMonitor) =>
    (await fixture.pool.query('select monitor_id from monitors where monitor_key = $1', [monitorKey])).rows[0]
      .monitor_id as string;
  const partOf = async (monitor: SeedMonitor): Promise<OperatorPart> => ({
    projectId: fixture.project.projectId,
    monitorId: await monitorIdOf(monitor),
  });
  /** As if the parts had been left out for so much longer, while the operator signed for the others. */
  const letPass = (ms: number) =>
    fixture.pool.query(
      `update operator_signs set
         behind = (select jsonb_object_agg(part, since::bigint - $1) from jsonb_each_text(behind) as of (part, since))`,
      [ms],
    );

  it('judges the others, and the part up to the last sign that had it', async () => {
    await signedAgo(10_000);
    const [behind, other] = [await beaten(2 * MINUTE + 5_000), await beaten(2 * MINUTE + 5_000)];
    const part = await partOf(behind);
    for (let signs = 0; signs < 3; signs += 1) await leaveOut(part);
    await sweep();
    expect(await kindsOf(other)).toEqual(['missed_deadline']);
    expect(await kindsOf(behind)).toEqual([]);
    // A moment later all of it is told: no beat came.
    await sign();
    await wakeAll();
    await sweep();
    expect(await kindsOf(behind)).toEqual(['missed_deadline']);
  });

  it('judges what fell due before it was left out', async () => {
    await signedAgo(1_000);
    const monitor = await beaten(2 * MINUTE + 5_000);
    await leaveOut(await partOf(monitor));
    await sweep();
    expect(await kindsOf(monitor)).toEqual(['missed_deadline']);
  });

  it('judges nothing of a project that it cannot see, and its time out is an outage for that one alone', async () => {
    const { projectId } = fixture.project;
    await signedAgo(0);
    await leaveOut({ projectId });
    await letPass(HOUR);
    const monitor = await beaten(50 * MINUTE);
    await leaveOut({ projectId });
    await sweep();
    expect(await kindsOf(monitor)).toEqual([]);
    // All is seen again but one monitor, whose time out goes on.
    await leaveOut({ projectId, monitorId: 'other' });
    const spans = 'select part, from_ms, to_ms from operator_part_outages';
    const [outage, ...more] = (await fixture.pool.query(spans)).rows;
    expect([outage.part, more]).toEqual([projectId, []]);
    const { rows } = await fixture.pool.query('select behind from operator_signs');
    expect(rows).toEqual([{ behind: { [`${projectId} other`]: outage.from_ms } }]);
    await wakeAll();
    await sweep();
    expect(await kindsOf(monitor)).toEqual([]);
    expect((await liveOf(fixture.pool, monitor)).deadline_ms).toBe(outage.to_ms + 2 * MINUTE);
    const known = await readOperators(fixture.pool, [ofOperator()], 0);
    const of = { projectId: other.projectId, monitorId: 'job' };
    expect(known.of(ofOperator(), of).outages).toEqual([]);
  });

  it('a part that was out for less than twenty seconds leaves no outage', async () => {
    await signedAgo(0);
    const monitor = await beaten(MINUTE);
    await leaveOut(await partOf(monitor));
    await letPass(15_000);
    await sign();
    const { rows } = await fixture.pool.query('select behind from operator_signs');
    expect(rows).toEqual([{ behind: null }]);
    expect((await fixture.pool.query('select * from operator_part_outages')).rows).toEqual([]);
  });
});

const textsOf = async (work: () => Promise<unknown>) => (await statementsOf(work)).map(({ text }) => text);

describe('what it costs', () => {
  it('a batch without such monitors reads no operator; one with thousands reads them in one statement', async () => {
    await signedAgo(HOUR);
    const plain = await columns(50 * MINUTE, null);
    await seedMonitors(fixture.pool, fixture.project, 20, plain);
    await moveClock(fixture.pool);
    const withoutAny = await textsOf(() => drain(makeSweep(fixture.pool)));
    expect(withoutAny.filter((text) => text.includes('operator_'))).toEqual([]);
    const held = await columns(50 * MINUTE, OPERATOR);
    await seedMonitors(fixture.pool, fixture.project, 200, held);
    await moveClock(fixture.pool);
    const withMany = await textsOf(() => drain(makeSweep(fixture.pool)));
    expect(withMany.filter((text) => text.includes('from operator_signs'))).toHaveLength(1);
    // All of them are put off by one statement.
    expect(withMany.filter((text) => text.includes('update monitor_live'))).toHaveLength(1);
  });
});

it('outages of operators are deleted after 400 days, and signs never', async () => {
  await signedAgo(0);
  const nowMs = await readNow(fixture.pool);
  const DAY = 24 * HOUR;
  const insert = (daysAgo: number) =>
    fixture.pool.query(
      'insert into operator_outages (organization_id, operator_id, from_ms, to_ms) values ($1, $2, $3, $4)',
      [fixture.project.organizationId, OPERATOR, nowMs - daysAgo * DAY - MINUTE, nowMs - daysAgo * DAY],
    );
  const insertPart = (daysAgo: number) =>
    fixture.pool.query(
      `insert into operator_part_outages (organization_id, operator_id, part, from_ms, to_ms) values ($1, $2, 'part', $3, $4)`,
      [fixture.project.organizationId, OPERATOR, nowMs - daysAgo * DAY - MINUTE, nowMs - daysAgo * DAY],
    );
  for (const daysAgo of [399, 401]) await Promise.all([insert(daysAgo), insertPart(daysAgo)]);
  await signedAgo(500 * DAY);
  await RETENTION_RULES.find(({ what }) => what === 'operator_outages')?.retire(fixture.pool, 1_000);
  for (const table of ['operator_outages', 'operator_part_outages']) {
    const { rows } = await fixture.pool.query(`select to_ms from ${table}`);
    expect(rows).toEqual([{ to_ms: nowMs - 399 * DAY }]);
  }
  expect((await fixture.pool.query('select * from operator_signs')).rows).toHaveLength(1);
});
