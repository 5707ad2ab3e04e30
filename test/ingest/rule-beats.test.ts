// Beats that rules judge, on a real database: what opens and ends, what is kept, two replicas, a lost state, a lost connection.
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { MeasurementRule } from '../../src/domain/monitor.ts';
import { runBeatTransaction } from '../../src/ingest/beat-transaction.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';
import { incidentsOf, liveOf, observationsOf, timelineOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';
import { openPingFixture, type PingFixture, type PingServer, startPingServer } from './ping-fixture.ts';

let fixture: PingFixture;
let other: PingServer;

beforeAll(async () => {
  fixture = await openPingFixture();
  other = await startPingServer(fixture.databaseUrl);
});
afterAll(async () => {
  await other?.close();
  await fixture?.close();
});

type Rules = Record<string, MeasurementRule>;

const ROWS: Rules = { rows: { minimum: 10, maximumAbsoluteDelta: 100 } };

const make = (measurements: Rules = ROWS) => fixture.makeMonitor({ configuration: { measurements } });

async function send(monitor: SeedMonitor, measurements: object | undefined, options: Options = {}) {
  const { url = fixture.url, path = '', key } = options;
  const answer = await fetch(`${url}/ping/${monitor.address}${path}`, {
    method: 'POST',
    headers: {
      accept: 'application/json',
      'content-type': 'application/json',
      ...(key ? { 'idempotency-key': key } : {}),
    },
    body: JSON.stringify({ measurements }),
  });
  const body = (await answer.json()) as { violations?: unknown[]; [field: string]: unknown };
  return { status: answer.status, body };
}

interface Options {
  url?: string;
  path?: string;
  key?: string;
}

/** What the live row remembers. In the order of the keys: those that look back come first. */
async function statesOf(monitor: SeedMonitor) {
  return JSON.parse((await liveOf(fixture.pool, monitor)).rule_states);
}

/** The values of `rows` in the order of the beats. */
async function sendRows(monitor: SeedMonitor, ...values: number[]) {
  const answers = [];
  for (const rows of values) answers.push(await send(monitor, { rows }));
  return answers;
}

it('a violation opens an incident, a conforming success ends it, and the next violation opens another one', async () => {
  const monitor = await make();
  const [low] = await sendRows(monitor, 9);
  const violation = { measurement: 'rows', rule: 'minimum', bound: 10, value: 9 };
  expect(low).toMatchObject({ status: 200, body: { accepted: true, sequence: 1, violations: [violation] } });
  expect(await incidentsOf(fixture.pool, monitor)).toMatchObject([
    { kind: 'rule_violation', state: 'open', severity: 'warning', measurement: 'rows', rule: 'minimum' },
  ]);
  expect((await liveOf(fixture.pool, monitor)).open_incidents).toBe(1);

  const [well] = await sendRows(monitor, 10);
  expect(well?.body.violations).toEqual([]);
  const [ended] = await incidentsOf(fixture.pool, monitor);
  expect(ended).toMatchObject({ state: 'recovered', open_sequence: 1, last_sequence: 2 });
  expect((await timelineOf(fixture.pool, ended?.incident_id)).map(({ type }) => type)).toContain('recovered');
  expect((await liveOf(fixture.pool, monitor)).open_incidents).toBe(0);

  await sendRows(monitor, 1);
  const all = await incidentsOf(fixture.pool, monitor);
  expect(all.map(({ state }) => state)).toEqual(['recovered', 'open']);
  const stored = await observationsOf(fixture.pool, monitor);
  expect(stored.map(({ violations }) => violations)).toEqual([
    [violation],
    null,
    [{ ...violation, value: 1 }],
  ]);
});

it('an incident that recovers opens again at a violation, and gets graver by violations in a row', async () => {
  const rulePolicy = {
    version: 1,
    transientConsequence: 'info',
    sustainedConsequence: 'critical',
    sustainedCriterion: { kind: 'observations', observations: 2 },
  } as const;
  const monitor = await make({ rows: { minimum: 10, rulePolicy } });
  const stateNow = async () => {
    const [incident] = await incidentsOf(fixture.pool, monitor);
    return `${incident?.state} ${incident?.severity}`;
  };
  await sendRows(monitor, 1);
  expect(await stateNow()).toBe('open info');
  await sendRows(monitor, 20);
  expect(await stateNow()).toBe('recovering info');
  await sendRows(monitor, 1);
  expect(await stateNow()).toBe('open info');
  await sendRows(monitor, 1);
  expect(await stateNow()).toBe('open critical');
  const [incident] = await incidentsOf(fixture.pool, monitor);
  const timeline = await timelineOf(fixture.pool, incident?.incident_id);
  const types = timeline.map(({ type }) => type).filter((type) => type !== 'suppressed');
  expect(types).toEqual(['opened', 'recovering', 'reopened', 'escalated']);
});

it('a repeated beat gets the violations of the first one and is judged once', async () => {
  const monitor = await make();
  const first = await send(monitor, { rows: 3 }, { key: 'one' });
  expect(first.body.violations).toHaveLength(1);
  expect(await send(monitor, { rows: 3 }, { key: 'one' })).toEqual(first);
  const [incident] = await incidentsOf(fixture.pool, monitor);
  expect(incident?.violation_count).toBe(1);
});

it('a success that the rules refuse is a 400 that moves the deadline; a fail or a log with it is taken', async () => {
  const monitor = await make({ rows: { metricType: 'count', minimum: 1, missingPolicy: 'reject' } });
  await sendRows(monitor, 4);
  const before = await liveOf(fixture.pool, monitor);
  const states = await statesOf(monitor);
  for (const measurements of [{ other: 1 }, { rows: 1.5 }, { rows: -1 }]) {
    expect((await send(monitor, measurements)).status).toBe(400);
  }
  const after = await liveOf(fixture.pool, monitor);
  expect(after.deadline_ms).toBeGreaterThan(before.deadline_ms);
  expect(after.last_sequence).toBe(before.last_sequence);
  for (const path of ['/log', '/fail', '/start']) {
    expect(await send(monitor, { rows: -1.5 }, { path })).toMatchObject({
      status: 200,
      body: { violations: [] },
    });
  }
  expect(await statesOf(monitor)).toEqual(states);
  const kinds = (await incidentsOf(fixture.pool, monitor)).map(({ kind }) => kind);
  expect(kinds).toEqual(['reported_failure']);
});

it('a state that is lost, or of another definition, is built again from the observations, and judges as before', async () => {
  const [kept, lost] = [await make(), await make()];
  const values = [50, 60, 8, 200, 210, 5, 4];
  await sendRows(kept, ...values);
  await sendRows(lost, ...values);
  await fixture.pool.query('update monitor_live set rule_states = null where monitor_key = $1', [
    lost.monitorKey,
  ]);
  await sendRows(kept, 3);
  await sendRows(lost, 3);
  const plain = (states: object) => JSON.stringify(states).replaceAll(/"sinceMs":\d+/g, '');
  expect(plain(await statesOf(lost))).toBe(plain(await statesOf(kept)));
  const rowsOf = async (monitor: SeedMonitor) => (await statesOf(monitor)).rules[0].minimum.row;
  expect(await rowsOf(lost)).toBe(3);
  await fixture.pool.query(`update monitor_live set rule_states = jsonb_set(rule_states::jsonb, '{of}', '"another1"')
    where monitor_key = '${lost.monitorKey}'`);
  await sendRows(lost, 2);
  expect(await rowsOf(lost)).toBe(4);
});

it('a text that cannot be read is built again from the observations, and holds up no other monitor', async () => {
  const [spoilt, whole] = [await make(), await make()];
  for (const monitor of [spoilt, whole]) await sendRows(monitor, 50, 8, 7);
  const known = await statesOf(spoilt);
  const spoil = 'update monitor_live set rule_states = $2 where monitor_key = $1';
  for (const text of ['{"of":', 'null', `{"of":"${known.of}","raw":["7"],"rules":[{"minimum":{}}]}`]) {
    await fixture.pool.query(spoil, [spoilt.monitorKey, text]);
    const answers = await Promise.all([spoilt, whole].map((monitor) => send(monitor, { rows: 6 })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const { rules } = await statesOf(spoilt);
    expect(rules[0].minimum.row).toBe((await statesOf(whole)).rules[0].minimum.row);
  }
  expect((await statesOf(spoilt)).rules[0].minimum.row).toBe(5);
});

it('beats of a monitor whose rules are at fault are kept and not judged, and it holds up no other monitor', async () => {
  const [faulty, whole] = [await make(), await make()];
  await fixture.pool.query('update monitors set measurements = $2 where monitor_key = $1', [
    faulty.monitorKey,
    { rows: null },
  ]);
  const told: unknown[] = [];
  const directory = new MonitorDirectory({
    db: fixture.pool,
    minimumIntervalMs: 60_000,
    onError: (error) => told.push(error),
  });
  const addresses = [faulty.address, whole.address];
  const [first, second] = await Promise.all(addresses.map((address) => directory.load(address)));
  expect(first).toMatchObject({ monitor: { monitorKey: faulty.monitorKey }, rules: undefined });
  expect(second?.rules?.looks).toBe(3);
  expect(told).toEqual([new Error(`The rules of the monitor ${faulty.monitorKey} are at fault.`)]);
  expect((await sendRows(faulty, 1)).map(({ status }) => status)).toEqual([200]);
});

it('beats of one monitor at two replicas at once are judged in the order of their sequences', async () => {
  const policy = { consecutiveObservations: 10, severity: 'critical' } as const;
  const monitor = await make({ rows: { minimum: 10, rulePolicy: policy } });
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, beat) =>
      send(monitor, { rows: 1 }, { url: beat % 2 === 0 ? fixture.url : other.url }),
    ),
  );
  expect(answers.every(({ status, body }) => status === 200 && body.violations?.length === 1)).toBe(true);
  const states = await statesOf(monitor);
  expect(states.rules[0].minimum).toMatchObject({ row: 40, sequence: 40 });
  const incidents = await incidentsOf(fixture.pool, monitor);
  expect(incidents).toMatchObject([{ open_sequence: 10, last_sequence: 40, violation_count: 31 }]);
});

it('a connection that dies before the commit leaves neither observation nor state, and one try later both', async () => {
  const monitor = await make();
  await sendRows(monitor, 50);
  // The first transaction that writes a live row dies at its commit.
  onTestFinished(async () => {
    await fixture.pool.query('drop trigger if exists dies on monitor_live');
  });
  await fixture.pool.query('create sequence deaths');
  await fixture.pool.query(`create function dies() returns trigger language plpgsql as $$ begin
    if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;
    return null; end $$`);
  await fixture.pool.query(`create constraint trigger dies after update of rule_states on monitor_live
    deferrable initially deferred for each row execute function dies()`);
  const [answer] = await sendRows(monitor, 7);
  expect(answer).toMatchObject({ status: 200, body: { sequence: 2 } });
  const { rows } = await fixture.pool.query('select last_value as tries from deaths');
  expect(rows).toEqual([{ tries: 2 }]);
  expect(await observationsOf(fixture.pool, monitor)).toHaveLength(2);
  expect(await statesOf(monitor)).toMatchObject({ raw: [7], rules: [{ minimum: { row: 1, sequence: 2 } }] });
  expect(await incidentsOf(fixture.pool, monitor)).toMatchObject([{ violation_count: 1, open_sequence: 2 }]);
});

it('a batch of 100 monitors with rules takes as many statements as one of 2 without', async () => {
  const columns = { configuration: { measurements: ROWS } };
  const lane = new Lane(fixture.databaseUrl);
  const directory = new MonitorDirectory({ db: fixture.pool, minimumIntervalMs: 60_000 });
  try {
    await waitFor(() => lane.connect().then(() => true), { what: 'the lane is connected' });
    const itemsOf = async (monitors: readonly SeedMonitor[], rows: number) => {
      const entries = await Promise.all(monitors.map(({ address }) => directory.load(address)));
      return entries.flatMap((entry) =>
        entry ? [{ entry, beat: { kind: 'success' as const, measurements: { rows } } }] : [],
      );
    };
    const count = async (monitors: readonly SeedMonitor[], rows: number) => {
      const items = await itemsOf(monitors, rows);
      expect(items).toHaveLength(monitors.length);
      const sent: string[] = [];
      await lane.write((connection, of) => {
        const counting = {
          query: (statement: string | { text: string }, ...more: []) => {
            sent.push(typeof statement === 'string' ? statement : statement.text);
            return connection.query(statement as string, ...more);
          },
        };
        return runBeatTransaction(counting as Queryable, items, { ...of, directory });
      });
      return sent;
    };
    const many = await seedMonitors(fixture.pool, fixture.project, 100, columns);
    const few = many.slice(0, 2);
    // Their states are built.
    await count(many, 50);
    const { rows } = await fixture.pool.query(
      'select count(rule_states)::int as built from monitor_live where monitor_key = any($1)',
      [many.map(({ monitorKey }) => monitorKey)],
    );
    expect(rows).toEqual([{ built: 100 }]);
    const ofFew = await count(few, 55);
    expect(await count(many, 60)).toEqual(ofFew);
    // begin, lock, write, commit.
    expect(ofFew).toHaveLength(4);
    const withoutRules = await seedMonitors(fixture.pool, fixture.project, 2);
    expect(await count(withoutRules, 1)).toHaveLength(4);
  } finally {
    await lane.close();
  }
});

it('of monitors that take long to judge a batch takes some, also of their past, and all are answered', async () => {
  const keys = Array.from({ length: 64 }, (_, place) => `k${place}`);
  const rule = { minimum: 10, maximum: 20, maximumAbsoluteDelta: 1, maximumPercentageDelta: 1 };
  const measurements = Object.fromEntries(keys.map((key) => [key, rule]));
  // 320 looks for a beat: 62 of them fit into a batch, and the past of two.
  const monitors = await seedMonitors(fixture.pool, fixture.project, 100, {
    configuration: { measurements },
    live: { last_sequence: 60 },
  });
  const values = Object.fromEntries(keys.map((key) => [key, 1]));
  await fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
     select $1, m, s, now() - (61 - s) * interval '1 second', 'success', $3
     from unnest($2::uuid[]) m, generate_series(1, 60) s`,
    [fixture.project.projectId, monitors.map(({ monitorKey }) => monitorKey), values],
  );
  for (const sequence of [61, 62]) {
    const answers = await Promise.all(monitors.map((monitor) => send(monitor, values)));
    for (const { status, body } of answers) {
      expect(status).toBe(200);
      expect(body.sequence).toBe(sequence);
      expect(body.violations).toHaveLength(64);
    }
  }
  const [built] = await Promise.all(monitors.slice(-1).map(statesOf));
  expect(built.rules[63].minimum).toMatchObject({ row: 62 });
});
