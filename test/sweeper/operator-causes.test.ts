// One cause that an operator sees, one alert at each endpoint (docs/contract/incidents.md, "Causes that the operator sees"): by the
// beat path and the sweep on a real database.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { DAY_MS } from '../../src/domain/retention.ts';
import { claimCauses } from '../../src/store/monitors/seen-causes.ts';
import { RETENTION_RULES } from '../../src/store/upkeep/retention.ts';
import { sweepHeldAlerts } from '../../src/sweeper/upkeep/sweep-held-alerts.ts';
import type { History } from '../api/explain-history.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type CauseFixture, node, openCauseFixture } from './cause-fixture.ts';
import { MINUTE } from './dependency-fixture.ts';

let fixture: CauseFixture;
const made: History[] = [];
beforeAll(async () => {
  fixture = await openCauseFixture();
});
afterAll(() => fixture?.close());
/** They are out of the way of the next test. */
afterEach(async () => {
  for (const history of made.splice(0)) await history.act('archive');
  await fixture.see([]);
});

async function makeMany(count: number, configuration: Parameters<CauseFixture['makeBeaten']>[0] = {}) {
  const histories: History[] = [];
  for (let index = 0; index < count; index += 1) histories.push(await fixture.makeBeaten(configuration));
  made.push(...histories);
  return histories;
}
async function makeOne(configuration: Parameters<CauseFixture['makeBeaten']>[0] = {}): Promise<History> {
  const [history] = await makeMany(1, configuration);
  if (!history) throw new Error('None was made.');
  return history;
}
const eventsOf = async (histories: readonly History[]) =>
  (await fixture.alertsOf(histories)).map(({ event }) => event);
const stateOf = async (history: History) => (await fixture.incidentsOf(history)).at(-1);
/** Whoever has alerted, and who has not. */
async function split(histories: readonly History[]) {
  const ids = new Set((await fixture.alertsOf(histories)).map(({ monitorId }) => monitorId));
  return {
    told: histories.filter(({ name }) => ids.has(name.monitorId)),
    silent: histories.filter(({ name }) => !ids.has(name.monitorId)),
  };
}
/** All miss a deadline while the operator sees a node that is not ready. */
async function losesNode(histories: readonly History[], object = 'worker-3') {
  await fixture.pass(5 * MINUTE);
  await fixture.see([node(object, histories)]);
  await fixture.pass(3 * MINUTE);
}

describe('an alert of a monitor that an operator beats', () => {
  it('goes out after 60 seconds where the operator sees no cause, and names none', async () => {
    const history = await makeOne();
    await history.beat('fail');
    await fixture.pass(50_000);
    expect(await eventsOf([history])).toEqual([]);
    const { nowMs } = fixture.clock;
    expect((await history.explain()).silence).toMatchObject([
      {
        reason: 'dependency',
        untilMs: nowMs + 10_000,
        note: expect.stringMatching(
          /^The alert of inc_\w+ waits to see whether its operator sees a cause of it\.$/,
        ),
      },
    ]);
    await fixture.pass(20_000);
    const alerts = await fixture.alertsOf([history]);
    expect(alerts.map(({ event, cause }) => [event, cause])).toEqual([['incident.opened', undefined]]);
    await history.beat('success');
    expect(await eventsOf([history])).toEqual(['incident.opened', 'incident.recovered']);
  });

  it('is none where it recovers before', async () => {
    const history = await makeOne();
    await history.beat('fail');
    await fixture.pass(40_000);
    await history.beat('success');
    await fixture.pass(3 * MINUTE);
    expect(await eventsOf([history])).toEqual([]);
  });
});

describe('a cause', () => {
  it('of twenty monitors sends one alert, which names it and how many it concerns', async () => {
    const histories = await makeMany(20);
    await losesNode(histories);
    const alerts = await fixture.alertsOf(histories);
    expect(alerts).toMatchObject([
      { event: 'incident.opened', cause: { cause: 'node_not_ready', object: 'worker-3', monitors: 20 } },
    ]);
    expect(alerts[0]?.summary).toMatch(/ Node worker-3 is not ready; it concerns 20 monitors\.$/);
    const { told, silent } = await split(histories);
    expect(silent).toHaveLength(19);
    for (const history of silent) {
      expect(await stateOf(history)).toMatchObject({
        state: 'open',
        suppressedBy: { cause: 'node_not_ready', object: 'worker-3' },
        suppressed: [
          { event: 'incident.opened', reason: 'dependency', cause: 'node_not_ready', object: 'worker-3' },
        ],
      });
    }
    for (const history of told) expect(await stateOf(history)).toMatchObject({ suppressedBy: null });
    const { silence, because } = (await silent[0]?.explain()) ?? {};
    expect(because).toMatch(/^Down since /);
    expect(silence).toMatchObject([
      {
        reason: 'dependency',
        note: expect.stringMatching(
          /^incident\.opened of inc_\w+ was not sent at [\d:]+ UTC: the alert of another monitor says that node worker-3 is not ready\.$/,
        ),
      },
    ]);
  });

  it('does not silence a later incident of the monitor that named it', async () => {
    const [first, second] = await makeMany(2);
    if (!first || !second) throw new Error('None was made.');
    await losesNode([first, second]);
    const { told, silent } = await split([first, second]);
    const [speaker, other] = [told[0], silent[0]];
    if (!speaker || !other) throw new Error('Not one of the two has alerted.');
    await speaker.beat('success');
    await speaker.beat('fail');
    await other.beat('success');
    await other.beat('fail');
    await fixture.pass(3 * MINUTE);
    expect(await eventsOf([speaker])).toEqual(['incident.opened', 'incident.recovered', 'incident.opened']);
    expect(await eventsOf([other])).toEqual([]);
  });

  it('of a project, such as an image, is told of for each project at an endpoint; a node once for all', async () => {
    const causeId = randomUUID();
    const endpoint = { projectId: randomUUID(), endpointId: 'shared' };
    const claim = (scopeId: string, incidentId: string) => ({
      ...{ causeId, endpoint, scopeId, monitorKey: randomUUID(), incidentId },
    });
    const [one, two, all] = [randomUUID(), randomUUID(), randomUUID()];
    const claims = [claim(one, 'a'), claim(one, 'b'), claim(two, 'c'), claim(all, 'd'), claim(all, 'e')];
    expect(await claimCauses(fixture.clock.pool, claims)).toEqual(new Set(['a', 'c', 'd']));
    // Once more, as a sweeper does that runs again.
    expect(await claimCauses(fixture.clock.pool, claims.toReversed())).toEqual(new Set(['a', 'c', 'd']));
  });

  it('of one monitor sends its alert, which names it', async () => {
    const history = await makeOne();
    await losesNode([history]);
    const [alert, ...more] = await fixture.alertsOf([history]);
    expect(more).toEqual([]);
    expect(alert?.cause?.monitors).toBe(1);
    expect(alert?.summary).toMatch(/ Node worker-3 is not ready\.$/);
  });

  it('sends an alert to each endpoint, which counts those of whom its receiver may hear', async () => {
    const histories = await makeMany(6);
    const team = histories.slice(0, 3);
    const endpointId = await fixture.bindTo(team[0] as History);
    for (const history of team) await fixture.bindTo(history, endpointId);
    await losesNode(histories);
    const alerts = await fixture.alertsOf(histories);
    expect(alerts).toHaveLength(2);
    expect(new Set(alerts.map((alert) => alert.endpointId)).size).toBe(2);
    expect(alerts.filter((alert) => alert.endpointId === endpointId)).toMatchObject([
      { monitorId: expect.toBeOneOf(team.map(({ name }) => name.monitorId)), cause: { monitors: 6 } },
    ]);
  });

  it('that is another one sends another alert', async () => {
    const histories = await makeMany(4);
    const [one, two, three, four] = histories as [History, History, History, History];
    await fixture.pass(5 * MINUTE);
    await fixture.see([node('worker-1', [one, two]), node('worker-2', [three, four])]);
    await fixture.pass(3 * MINUTE);
    const alerts = await fixture.alertsOf(histories);
    expect(alerts.map(({ cause }) => cause?.object).toSorted()).toEqual(['worker-1', 'worker-2']);
  });

  it('does not silence who had alerted before, and that recovery is told of', async () => {
    const history = await makeOne();
    await history.beat('fail');
    await fixture.pass(2 * MINUTE);
    await fixture.see([node('worker-3', [history])]);
    await fixture.pass(MINUTE);
    await history.beat('success');
    expect(await eventsOf([history])).toEqual(['incident.opened', 'incident.recovered']);
  });

  it('is told of once where its first incident recovers, and who joins it later is silent', async () => {
    const [one, two, three] = (await makeMany(3)) as [History, History, History];
    await two.beat('success');
    await fixture.pass(5 * MINUTE);
    await two.beat('success');
    await three.beat('success');
    await fixture.see([node('worker-3', [one, two, three])]);
    await fixture.pass(3 * MINUTE);
    expect(await fixture.alertsOf([one, two, three])).toMatchObject([{ monitorId: one.name.monitorId }]);
    await one.beat('success');
    await fixture.see([node('worker-3', [two, three])]);
    await fixture.pass(5 * MINUTE);
    expect(await eventsOf([one, two, three])).toEqual(['incident.opened', 'incident.recovered']);
  });

  it('that is over before the hold ends: the first one alerts, the others have their time', async () => {
    const histories = await makeMany(3);
    await fixture.see([node('worker-3', histories)]);
    for (const history of histories) await history.beat('fail');
    await fixture.pass(20_000);
    await fixture.see([]);
    await fixture.pass(2 * MINUTE);
    expect(await fixture.alertsOf(histories)).toMatchObject([{ cause: { object: 'worker-3', monitors: 3 } }]);
    const { silent } = await split(histories);
    for (const history of silent) await history.beat('success');
    // Past their time, and before their next deadline.
    await fixture.pass(5 * MINUTE);
    expect(await eventsOf(silent)).toEqual([]);
  });

  it('that was over for long when an incident opened is not its cause', async () => {
    const histories = await makeMany(3);
    await fixture.see([node('worker-3', histories)]);
    await fixture.see([]);
    await fixture.pass(2 * MINUTE);
    for (const history of histories) await history.beat('fail');
    await fixture.pass(2 * MINUTE);
    const alerts = await fixture.alertsOf(histories);
    expect(alerts.map(({ event, cause }) => [event, cause])).toEqual(
      Array(3).fill(['incident.opened', undefined]),
    );
  });
});

describe('the end of a cause', () => {
  it('gives those that it silenced an interval and grace; who has recovered by then tells nobody', async () => {
    const histories = await makeMany(4);
    await losesNode(histories);
    const { silent } = await split(histories);
    const [well, ...ill] = silent as [History, History, History];
    await fixture.see([]);
    const endedMs = fixture.clock.nowMs;
    await fixture.pass(MINUTE);
    expect((await ill[0]?.explain())?.silence).toContainEqual({
      reason: 'dependency',
      untilMs: endedMs + 6 * MINUTE,
      note: expect.stringMatching(/^The cause of inc_\w+ is over: its alert waits for a beat until then\.$/),
    });
    await well.beat('success');
    await fixture.pass(4 * MINUTE);
    await well.beat('success');
    expect(await eventsOf(silent)).toEqual([]);
    await fixture.pass(90_000);
    const alerts = await fixture.alertsOf(silent);
    expect(alerts.map(({ monitorId }) => monitorId).toSorted()).toEqual(
      ill.map(({ name }) => name.monitorId).toSorted(),
    );
    expect(alerts.map(({ event, cause }) => [event, cause])).toEqual(
      Array(2).fill(['incident.opened', undefined]),
    );
    const [incident] = await fixture.incidentsOf(ill[0] as History);
    expect(incident?.sent[0]?.atMs).toBeGreaterThanOrEqual(endedMs + 6 * MINUTE);
    expect(incident).toMatchObject({ suppressedBy: null });
    expect(await stateOf(well)).toMatchObject({ state: 'recovered', sent: [] });
  });

  it('for one monitor alone gives that one its time, and the others stay silent', async () => {
    const histories = await makeMany(4);
    await losesNode(histories);
    const { told, silent } = await split(histories);
    const [left, ...others] = silent as [History, History, History];
    await fixture.see([node('worker-3', [...told, ...others])]);
    await fixture.pass(8 * MINUTE);
    expect(await eventsOf(others)).toEqual([]);
    expect(await eventsOf([left])).toEqual(['incident.opened']);
  });

  it('is no end where it comes back: it is another one, and alerts anew', async () => {
    const histories = await makeMany(3);
    await losesNode(histories);
    const before = await fixture.alertsOf(histories);
    await fixture.see([]);
    await fixture.see([node('worker-3', histories)]);
    await fixture.pass(3 * MINUTE);
    const alerts = await fixture.alertsOf(histories);
    expect(alerts).toHaveLength(2);
    expect(new Set(alerts.map(({ monitorId }) => monitorId)).size).toBe(2);
    expect(alerts.slice(before.length)).toMatchObject([{ cause: { object: 'worker-3', monitors: 3 } }]);
  });

  it('by another cause of the same monitor is no end: the other one silences it, once it has alerted', async () => {
    const histories = await makeMany(4);
    await losesNode(histories);
    const { silent } = await split(histories);
    const gone = { cause: 'namespace_terminating' as const, object: 'shop', at: silent };
    await fixture.see([gone]);
    await fixture.pass(3 * MINUTE);
    expect(await fixture.alertsOf(silent)).toMatchObject([
      { cause: { cause: 'namespace_terminating', object: 'shop', monitors: 3 } },
    ]);
    const still = (await split(silent)).silent;
    expect(still).toHaveLength(2);
    for (const history of still)
      expect(await stateOf(history)).toMatchObject({ suppressedBy: { cause: 'namespace_terminating' } });
  });

  it('is also that no operator beats the monitor any more, or another one', async () => {
    const histories = await makeMany(3);
    await losesNode(histories);
    const { silent } = await split(histories);
    const [none, other] = silent as [History, History];
    await fixture.clock.pool.query('update monitors set beaten_by = null where monitor_id = $1', [
      none.name.monitorId,
    ]);
    await fixture.clock.pool.query(`update monitors set beaten_by = 'another' where monitor_id = $1`, [
      other.name.monitorId,
    ]);
    await fixture.pass(2 * MINUTE);
    expect(await eventsOf([none, other])).toEqual(['incident.opened', 'incident.opened']);
  });
});

it('a cause is kept for 30 days after its end, with what was kept of its alerts; one that goes on is kept', async () => {
  const { pool } = fixture.clock;
  const histories = await makeMany(2);
  await losesNode(histories, 'worker-old');
  const { rows } = await pool.query(`select cause_id from operator_causes where object = 'worker-old'`);
  const causeId = rows[0]?.cause_id;
  const tables = ['caused_monitors', 'operator_causes', 'cause_alerts'];
  const counts = async () => {
    const found = tables.map(async (table) => {
      const of = await pool.query(`select count(*)::integer as count from ${table} where cause_id = $1`, [
        causeId,
      ]);
      return of.rows[0].count;
    });
    return await Promise.all(found);
  };
  const retire = async () => {
    for (const what of tables.slice(0, 2))
      await RETENTION_RULES.find((rule) => rule.what === what)?.retire(pool, 1_000);
  };
  await retire();
  expect(await counts()).toEqual([2, 1, 1]);
  await fixture.see([]);
  const age = async (days: number) => {
    for (const table of tables.slice(0, 2))
      await pool.query(`update ${table} set ended_ms = ended_ms - $2 where cause_id = $1`, [
        causeId,
        days * DAY_MS,
      ]);
    await retire();
  };
  await age(29);
  expect(await counts()).toEqual([2, 1, 1]);
  await age(2);
  expect(await counts()).toEqual([0, 0, 0]);
});

describe('beside a cause', () => {
  it('a dependency that is down comes first', async () => {
    const database = await fixture.make();
    made.push(database);
    await database.beat('success');
    const histories = await makeMany(2, { dependsOn: [database.name.monitorId] });
    await losesNode(histories);
    const [down] = await fixture.incidentsOf(database);
    expect(await eventsOf(histories)).toEqual([]);
    for (const history of histories)
      expect(await stateOf(history)).toMatchObject({ suppressedBy: { incidentId: down?.incidentId } });
  });

  it('a maintenance window puts the alert off, which then names the cause', async () => {
    const [one, two] = (await makeMany(2)) as [History, History];
    await fixture.see([node('worker-3', [one, two])]);
    for (const history of [one, two]) {
      await history.beat('fail');
      const { nowMs } = fixture.clock;
      await history.act('enter_maintenance', { startsMs: nowMs, endsMs: nowMs + 4 * MINUTE });
    }
    await fixture.pass(3 * MINUTE);
    expect(await eventsOf([one, two])).toEqual([]);
    await fixture.pass(2 * MINUTE);
    expect(await fixture.alertsOf([one, two])).toMatchObject([{ cause: { monitors: 2 } }]);
  });

  it('an alert that goes nowhere tells nobody of the cause: the next one does', async () => {
    const histories = await makeMany(3);
    const [first, ...others] = histories as [History, History, History];
    await fixture.clock.pool.query(`update monitors set binding_kind = 'disabled' where monitor_id = $1`, [
      first.name.monitorId,
    ]);
    await losesNode(histories);
    expect(await eventsOf([first])).toEqual([]);
    expect(await stateOf(first)).toMatchObject({ suppressedBy: null, suppressed: [{ reason: 'disabled' }] });
    expect(await eventsOf(others)).toEqual(['incident.opened']);
  });

  it('a person who resolves a silent incident tells nobody', async () => {
    const histories = await makeMany(3);
    await losesNode(histories);
    const { silent } = await split(histories);
    const [history] = silent as [History];
    await history.resolve((await stateOf(history))?.incidentId ?? '');
    await fixture.pass(MINUTE);
    expect(await stateOf(history)).toMatchObject({ state: 'resolved', sent: [] });
  });
});

describe('whatever happens at once', () => {
  /** All are held, and the hold is over; nobody has looked yet. */
  async function makeDue(count: number) {
    const histories = await makeMany(count);
    await fixture.see([node('worker-3', histories)]);
    for (const history of histories) await history.beat('fail');
    await fixture.clock.pass(61_000);
    await moveClock(fixture.clock.pool, fixture.clock.nowMs);
    return histories;
  }

  it('of sweepers that look at once one names the cause, in batches of one and of all', async () => {
    for (const batchSize of [1, 100]) {
      const histories = await makeDue(12);
      const look = () => drain(makeSweep(fixture.clock.pool, { batchSize }));
      await Promise.all([look(), look(), sweepHeldAlerts(fixture.clock), look()]);
      expect(await fixture.alertsOf(histories)).toMatchObject([{ cause: { monitors: 12 } }]);
      await fixture.pass(MINUTE);
      expect(await eventsOf(histories)).toHaveLength(1);
      for (const history of made.splice(0)) await history.act('archive');
      await fixture.see([]);
    }
  });

  it('a sweeper that dies after it has claimed the alert leaves it to the next one', async () => {
    const histories = await makeDue(5);
    const { pool } = fixture.clock;
    const blocker = await fixture.pool.connect();
    await blocker.query('begin; lock table deliveries in exclusive mode');
    const dying = drain(makeSweep(pool)).then(
      () => 'ended',
      () => 'died',
    );
    // It has the claim and cannot write its deliveries.
    const waiting = await waitFor(async () => {
      const { rows } = await fixture.pool.query(
        `select a.pid from pg_stat_activity a join pg_locks l using (pid)
         where not l.granted and l.relation = 'deliveries'::regclass and a.datname = current_database()`,
      );
      return rows[0]?.pid as number | undefined;
    });
    await fixture.pool.query('select pg_terminate_backend($1)', [waiting]);
    await blocker.query('rollback');
    blocker.release();
    await dying;
    expect(await eventsOf(histories)).toHaveLength(0);
    await fixture.pass(MINUTE);
    expect(await fixture.alertsOf(histories)).toMatchObject([{ cause: { monitors: 5 } }]);
  });
});
