// One cause, one alert (docs/contract/incidents.md, "Dependencies"): what becomes of the alerts of monitors that depend on others,
// by the beat path and the sweep on a real database.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sweepHeldAlerts } from '../../src/sweeper/upkeep/sweep-held-alerts.ts';
import type { History } from '../api/explain-history.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { type DependencyFixture, MINUTE, openDependencyFixture } from './dependency-fixture.ts';

let fixture: DependencyFixture;
beforeAll(async () => {
  fixture = await openDependencyFixture();
});
afterAll(() => fixture?.close());

const eventsOf = async (history: History) =>
  (await fixture.incidentsOf(history)).map(({ sent }) => sent.map(({ event }) => event));
const idOf = async (history: History) => (await fixture.incidentsOf(history)).at(-1)?.incidentId;

/** A database, and a job that depends on it; both have beaten. */
async function makePair() {
  const database = await fixture.make();
  const job = await fixture.make({ dependsOn: [database.name.monitorId] });
  await database.beat('success');
  await job.beat('success');
  return { database, job };
}

describe('an incident of a monitor that depends on another', () => {
  it('alerts after 30 seconds where the other one is well', async () => {
    const { database, job } = await makePair();
    await job.beat('fail');
    await fixture.pass(20_000);
    expect(await eventsOf(job)).toEqual([[]]);
    await fixture.pass(20_000);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
    await job.beat('success');
    expect(await eventsOf(job)).toEqual([['incident.opened', 'incident.recovered']]);
    expect(await eventsOf(database)).toEqual([]);
  });

  it('sends nothing where it recovers before', async () => {
    const { job } = await makePair();
    await job.beat('fail');
    await fixture.pass(20_000);
    await job.beat('success');
    await fixture.pass(5 * MINUTE);
    const [incident] = await fixture.incidentsOf(job);
    expect(incident).toMatchObject({
      state: 'recovered',
      suppressedBy: null,
      sent: [],
      suppressed: [{ event: 'incident.recovered', reason: 'held' }],
    });
  });

  it.each([
    ['the cause first', true],
    ['the child first', false],
  ])(
    'is suppressed while the other one is down, whichever deadline passes first: %s',
    async (_, isCauseFirst) => {
      const { database, job } = await makePair();
      const [first, second] = isCauseFirst ? [database, job] : [job, database];
      await first.beat('success');
      await fixture.pass(20_000);
      await second.beat('success');
      await fixture.pass(8 * MINUTE);
      const cause = { monitorId: database.name.monitorId, incidentId: await idOf(database) };
      expect(await eventsOf(database)).toEqual([['incident.opened']]);
      const [incident] = await fixture.incidentsOf(job);
      expect(incident).toMatchObject({
        state: 'open',
        suppressedBy: cause,
        sent: [],
        suppressed: [{ event: 'incident.opened', reason: 'dependency', ...cause }],
      });
      const { silence, because } = await job.explain();
      expect(because).toMatch(/^Down since /);
      expect(silence).toMatchObject([
        {
          reason: 'dependency',
          note: expect.stringMatching(
            /^incident\.opened of inc_\w+ was not sent at [\d:]+ UTC: m-[\w-]+, which it depends on, was down \(inc_\w+\)\.$/,
          ),
        },
      ]);
    },
  );

  it('that recovers with its cause never alerts and sends no recovery', async () => {
    const { database, job } = await makePair();
    await fixture.pass(8 * MINUTE);
    await database.beat('success');
    await fixture.pass(2 * MINUTE);
    await job.beat('success');
    await fixture.pass(30 * MINUTE);
    const [incident] = await fixture.incidentsOf(job);
    expect(incident).toMatchObject({ state: 'recovered', sent: [] });
    expect(incident?.suppressed.map(({ event, reason }) => [event, reason])).toEqual([
      ['incident.opened', 'dependency'],
      ['incident.recovered', 'dependency'],
    ]);
  });

  it('alerts one interval and grace after its cause has recovered, if it has not recovered by then', async () => {
    const { database, job } = await makePair();
    await fixture.pass(8 * MINUTE);
    await database.beat('success');
    const recoveredMs = fixture.clock.nowMs;
    // The database must stay well.
    for (let minutes = 0; minutes < 5; minutes += 1) {
      await fixture.pass(MINUTE);
      await database.beat('success');
    }
    expect((await job.explain()).silence).toContainEqual(
      expect.objectContaining({ reason: 'dependency', untilMs: recoveredMs + 6 * MINUTE }),
    );
    expect(await eventsOf(job)).toEqual([[]]);
    await fixture.pass(2 * MINUTE);
    const [incident] = await fixture.incidentsOf(job);
    expect(incident).toMatchObject({ suppressedBy: null, sent: [{ event: 'incident.opened' }] });
    expect(incident?.sent[0]?.atMs).toBe(recoveredMs + 6 * MINUTE);
    expect((await job.explain()).silence).toEqual([]);
    await job.beat('success');
    expect(await eventsOf(job)).toEqual([['incident.opened', 'incident.recovered']]);
  });

  it('is suppressed by what its causes depend on, and all of it sends one alert that counts them', async () => {
    const node = await fixture.make();
    const database = await fixture.make({ dependsOn: [node.name.monitorId], intervalSeconds: 3600 });
    const jobs = await Promise.all(
      [1, 2, 3].map(() => fixture.make({ dependsOn: [database.name.monitorId] })),
    );
    for (const history of [node, database, ...jobs]) await history.beat('success');
    await fixture.pass(10 * MINUTE);
    const [alert] = await fixture.incidentsOf(node);
    expect(alert?.sent).toHaveLength(1);
    const { data } = JSON.parse(alert?.sent[0]?.body ?? '{}');
    expect(data.monitor.dependents).toBe(4);
    expect(data.incident.summary).toMatch(/ 4 more monitors depend on it\.$/);
    for (const job of jobs) {
      expect(await fixture.incidentsOf(job)).toMatchObject([
        { suppressedBy: { monitorId: node.name.monitorId, incidentId: alert?.incidentId }, sent: [] },
      ]);
    }
  });

  it('is not suppressed by a cause that is paused, and alerts when the cause is paused', async () => {
    const { database, job } = await makePair();
    await fixture.pass(8 * MINUTE);
    expect(await eventsOf(job)).toEqual([[]]);
    await database.act('pause');
    await fixture.pass(2 * MINUTE);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
  });

  it('alerts when it depends on nothing any more', async () => {
    const { job } = await makePair();
    await fixture.pass(8 * MINUTE);
    await job.patch({ dependsOn: null });
    await fixture.pass(2 * MINUTE);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
  });

  it('that was told of before its cause went down recovers with an event', async () => {
    const { database, job } = await makePair();
    await job.beat('fail');
    await fixture.pass(MINUTE);
    await database.beat('fail');
    await fixture.pass(MINUTE);
    await job.beat('success');
    expect(await eventsOf(job)).toEqual([['incident.opened', 'incident.recovered']]);
  });

  it('that a person resolves or acknowledges while it is suppressed tells nobody', async () => {
    const { database, job } = await makePair();
    await database.beat('fail');
    await job.beat('fail');
    await fixture.pass(MINUTE);
    await job.resolve((await idOf(job)) ?? '');
    await fixture.pass(2 * MINUTE);
    expect(await fixture.incidentsOf(job)).toMatchObject([{ state: 'resolved', sent: [] }]);
  });

  it('is suppressed by a cause that was down and is over before it is decided, and has its time from then', async () => {
    const { database, job } = await makePair();
    await database.beat('fail');
    await job.beat('fail');
    await fixture.pass(20_000);
    await database.beat('success');
    const recoveredMs = fixture.clock.nowMs;
    await fixture.pass(4 * MINUTE);
    expect(await fixture.incidentsOf(job)).toMatchObject([
      { suppressedBy: { incidentId: await idOf(database) }, sent: [] },
    ]);
    await database.beat('success');
    await fixture.pass(3 * MINUTE);
    const [incident] = await fixture.incidentsOf(job);
    expect(incident).toMatchObject({
      suppressedBy: null,
      sent: [{ event: 'incident.opened', atMs: recoveredMs + 6 * MINUTE }],
    });
  });

  it('alerts after a maintenance window in which its hold ends', async () => {
    const { database, job } = await makePair();
    await job.beat('fail');
    await fixture.pass(10_000);
    const { nowMs } = fixture.clock;
    await job.act('enter_maintenance', { startsMs: nowMs, endsMs: nowMs + 4 * MINUTE });
    await fixture.pass(3 * MINUTE);
    await database.beat('success');
    expect(await eventsOf(job)).toEqual([[]]);
    await fixture.pass(2 * MINUTE);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
  });

  it('alerts where it flaps for minutes', async () => {
    const { database, job } = await makePair();
    await job.patch({ recoveryBeats: 2 });
    for (let round = 0; round < 20; round += 1) {
      await job.beat(round % 2 === 0 ? 'fail' : 'success');
      await fixture.pass(20_000);
      await database.beat('success');
    }
    const [incident] = await fixture.incidentsOf(job);
    expect(incident?.sent[0]?.event).toBe('incident.opened');
  });

  it('is not suppressed by a cause of which nobody was told', async () => {
    const { database, job } = await makePair();
    await fixture.clock.pool.query(
      `update monitors set binding_kind = 'disabled' where project_id = $1 and monitor_id = $2`,
      [database.name.projectId, database.name.monitorId],
    );
    await database.beat('fail');
    await job.beat('fail');
    await fixture.pass(2 * MINUTE);
    expect(await eventsOf(database)).toEqual([[]]);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
  });

  it('has its time again after an outage of Beatkeeper, and after a suspension', async () => {
    for (const isSuspended of [false, true]) {
      const { database, job } = await makePair();
      await fixture.pass(8 * MINUTE);
      await database.beat('success');
      if (isSuspended) await job.setState('abuse_suspended');
      await fixture.clock.pass(10 * MINUTE);
      if (isSuspended) {
        await fixture.pass(20_000);
        await job.setState('active');
        await fixture.clock.pool.query('update organizations set returned_at = clock_timestamp()');
      } else await job.haveOutage(10 * MINUTE);
      await database.beat('success');
      await fixture.pass(5 * MINUTE);
      expect([isSuspended, await eventsOf(job)]).toEqual([isSuspended, [[]]]);
      await database.beat('success');
      await fixture.pass(2 * MINUTE);
      expect([isSuspended, await eventsOf(job)]).toEqual([isSuspended, [['incident.opened']]]);
      for (const history of [job, database]) await history.act('archive');
    }
  });

  it('alerts once where two sweepers and two runs of the job look at it at the same moment', async () => {
    const { database, job } = await makePair();
    await fixture.pass(8 * MINUTE);
    await database.beat('success');
    const { clock } = fixture;
    await Promise.all([sweepHeldAlerts(clock), sweepHeldAlerts(clock)]);
    await fixture.pass(5 * MINUTE);
    await database.beat('success');
    // Past the time that it is given after its cause, and nobody has looked yet.
    await clock.pass(2 * MINUTE);
    await moveClock(clock.pool, clock.nowMs);
    const look = () => drain(makeSweep(clock.pool));
    await Promise.all([look(), sweepHeldAlerts(clock), look(), sweepHeldAlerts(clock)]);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
    await fixture.pass(MINUTE);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
  });

  it('alerts where a sweeper of the version before has taken its wake away', async () => {
    const { job } = await makePair();
    await job.beat('fail');
    const { projectId, monitorKey } = await job.read();
    await fixture.clock.pool.query(
      'update monitor_live set wake_ms = deadline_ms where project_id = $1 and monitor_key = $2',
      [projectId, monitorKey],
    );
    await fixture.pass(MINUTE);
    expect(await eventsOf(job)).toEqual([['incident.opened']]);
  });

  it('waits where a sweeper has not decided yet about the deadline of its cause', async () => {
    const { database, job } = await makePair();
    await job.beat('fail');
    // Something is at fault with the database: nobody looks at it for a while after its deadline.
    const { projectId, monitorKey, live } = await database.read();
    const hold = (ms: number) =>
      fixture.clock.pool.query(
        'update monitor_live set deadline_ms = $3, wake_ms = $4 where project_id = $1 and monitor_key = $2',
        [projectId, monitorKey, fixture.clock.nowMs, fixture.clock.nowMs + ms],
      );
    expect(live.deadlineMs).toBeDefined();
    await hold(2 * MINUTE);
    await fixture.pass(MINUTE);
    expect(await eventsOf(job)).toEqual([[]]);
    await fixture.pass(2 * MINUTE);
    expect(await eventsOf(database)).toEqual([['incident.opened']]);
    expect(await fixture.incidentsOf(job)).toMatchObject([
      { suppressedBy: { incidentId: await idOf(database) } },
    ]);
  });
});
