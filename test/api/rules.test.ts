// Rules of a monitor over HTTP: what a beat is told, what an incident and its alert say, what a test beat foresees, and what a
// change of the rules ends (docs/contract/rules.md).
// Holds: testBeat, explainMonitor.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeAddressed } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const callback = { kind: 'inline', url: 'http://127.0.0.1:9/' };

/** A monitor whose `rows` should be 10 at least. */
async function make(rule: object = { minimum: 10 }, body: object = {}) {
  const { params, act, patch, measure } = await makeAddressed(api, { callback, ...body });
  await patch({ measurements: { rows: rule } });
  return {
    params,
    act,
    patch,
    beat: async (measurements: object) => {
      const answer = await measure(measurements);
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    },
    test: async (measurements: object) => {
      const body = { measurements };
      return (await api.read.expectSuccess('testBeat', { params, body })).body;
    },
    read: async () => (await api.read.expectSuccess('getMonitor', { params })).body,
    incidents: async () => (await api.read.expectSuccess('listMonitorIncidents', { params })).body.items,
  };
}

const violation = { measurement: 'rows', rule: 'minimum', bound: 10, value: 3 };
const change = { kind: 'rule_violation', measurement: 'rows', rule: 'minimum', severity: 'warning' };

describe('a monitor with rules', () => {
  it('a violation is in the answer, on the observation and in an incident; a warning leaves the monitor up', async () => {
    const monitor = await make();
    expect((await monitor.beat({ rows: 3 })).body).toMatchObject({ accepted: true, violations: [violation] });
    const { params } = monitor;
    const { body: list } = await api.read.expectSuccess('listObservations', { params });
    expect(list.items.map(({ violations }) => violations)).toEqual([[violation]]);
    const read = await monitor.read();
    expect(read.latestObservation?.violations).toEqual([violation]);
    expect(read.status.health).toBe('up');
    expect(read.status.openIncidents).toMatchObject([{ kind: 'rule_violation', severity: 'warning' }]);
    const [incident] = await monitor.incidents();
    expect(incident).toMatchObject({ ...change, kind: 'rule_violation', state: 'open', violationCount: 1 });
    await monitor.beat({ rows: 30 });
    expect((await monitor.incidents())[0]).toMatchObject({ state: 'recovered' });
  });

  it('a critical violation makes the monitor down, and its alert names measurement and rule', async () => {
    const rulePolicy = { consecutiveObservations: 1, severity: 'critical' };
    const monitor = await make({ minimum: 10, rulePolicy });
    await monitor.beat({ rows: 3 });
    expect((await monitor.read()).status.health).toBe('down');
    const { rows } = await api.pool.query('select body from deliveries where monitor_id = $1', [
      monitor.params.monitorId,
    ]);
    expect(rows).toHaveLength(1);
    const event = JSON.parse(rows[0].body);
    expect(event).toMatchObject({
      type: 'incident.opened',
      data: {
        incident: { kind: 'rule_violation', measurement: 'rows', rule: 'minimum', severity: 'critical' },
      },
    });
    await monitor.beat({ rows: 30 });
    expect((await monitor.read()).status.health).toBe('up');
  });

  it('in maintenance a violation is recorded and opens nothing, and a conforming success still ends an incident', async () => {
    const monitor = await make();
    await monitor.beat({ rows: 3 });
    const now = Date.now();
    const window = { startsAt: new Date(now).toISOString(), endsAt: new Date(now + 3_600_000).toISOString() };
    await monitor.act('enter_maintenance', window);
    await monitor.beat({ rows: 30 });
    await monitor.beat({ rows: 3 });
    expect((await monitor.incidents()).map(({ state }) => state)).toEqual(['recovered']);
    const { body } = await api.read.expectSuccess('listObservations', { params: monitor.params });
    expect(body.items.map(({ violations }) => violations.length)).toEqual([1, 0, 1]);
  });

  it('an inactive rule records violations and opens nothing', async () => {
    const monitor = await make({ minimum: 10, ruleAction: { mode: 'inactive', version: 1 } });
    expect((await monitor.beat({ rows: 3 })).body.violations).toEqual([violation]);
    expect(await monitor.incidents()).toEqual([]);
  });

  it('a success that its rules refuse names the field', async () => {
    const monitor = await make({ minimum: 10, missingPolicy: 'reject' });
    const refused = await monitor.beat({ other: 1 });
    expect(refused.status).toBe(400);
    expect(refused.body).toMatchObject({
      code: 'service.validation_failed',
      detail: expect.stringMatching(/The deadline was not moved\.$/),
      fieldErrors: [{ path: 'measurements.rows', code: 'required' }],
    });
  });
});

describe('a test beat under rules', () => {
  it('foresees what opens, gets graver and ends, as the beat then does, and what would be refused', async () => {
    const rulePolicy = {
      version: 1,
      transientConsequence: 'warning',
      sustainedConsequence: 'critical',
      sustainedCriterion: { kind: 'observations', observations: 2 },
    };
    const monitor = await make({ minimum: 10, metricType: 'count', rulePolicy });
    expect(await monitor.test({ rows: 3 })).toMatchObject({
      accepted: true,
      violations: [violation],
      incidentChanges: [{ ...change, change: 'open' }],
    });
    expect(await monitor.incidents()).toEqual([]);
    await monitor.beat({ rows: 3 });
    expect((await monitor.test({ rows: 3 })).incidentChanges).toEqual([
      { ...change, change: 'escalate', severity: 'critical' },
    ]);
    await monitor.beat({ rows: 3 });
    expect((await monitor.incidents())[0]).toMatchObject({ severity: 'critical' });
    await monitor.beat({ rows: 20 });
    expect((await monitor.test({ rows: 20 })).incidentChanges).toEqual([
      { ...change, change: 'recover', severity: 'critical' },
    ]);
    expect(await monitor.test({ rows: 1.5 })).toMatchObject({
      accepted: false,
      fieldErrors: [{ path: 'measurements.rows', code: 'not_an_integer' }],
    });
  });
});

describe('explain', () => {
  const rowsOf = async (monitor: Awaited<ReturnType<typeof make>>, query: { at?: string } = {}) =>
    (await api.read.expectSuccess('explainMonitor', { params: monitor.params, query })).body;

  it('says of each rule its bound, the violations in a row, and how many open an incident, now and then', async () => {
    const rulePolicy = { consecutiveObservations: 3, severity: 'warning' };
    const monitor = await make({ minimum: 10, zeroExpectation: 'nonzero', rulePolicy });
    const rule = { measurement: 'rows', rule: 'minimum', bound: 10, violationsInRow: 0, opensAt: 3 };
    const other = { ...rule, rule: 'zeroExpectation', bound: 'nonzero' };
    expect((await rowsOf(monitor)).rules).toEqual([rule, other]);
    await monitor.beat({ rows: 4 });
    await monitor.beat({ rows: 3 });
    await monitor.beat({ other: 3 });
    const broken = { ...rule, lastValue: 3, violationsInRow: 2 };
    const now = await rowsOf(monitor);
    expect(now.rules).toEqual([broken, { ...other, lastValue: 3 }]);
    await monitor.patch({ measurements: { rows: { minimum: 2, zeroExpectation: null } } });
    expect((await rowsOf(monitor)).rules).toEqual([{ ...broken, bound: 2, violationsInRow: 0 }]);
    expect((await rowsOf(monitor, { at: now.at })).rules).toEqual(now.rules);
  });

  it('says how grave an incident was then, and when its last alert was due', async () => {
    const rulePolicy = {
      version: 1,
      transientConsequence: 'info',
      sustainedConsequence: 'critical',
      sustainedCriterion: { kind: 'observations', observations: 2 },
    };
    const monitor = await make({ minimum: 10, rulePolicy });
    await monitor.beat({ rows: 3 });
    const of = 'monitor_id = $1';
    await api.pool.query(`update incidents set opened_at = opened_at - interval '2 minutes' where ${of}`, [
      monitor.params.monitorId,
    ]);
    const before = await rowsOf(monitor);
    expect(before.health).toBe('up');
    await monitor.beat({ rows: 3 });
    expect((await rowsOf(monitor)).health).toBe('down');
    expect(await rowsOf(monitor, { at: before.at })).toEqual(before);
    await monitor.beat({ rows: 30 });
    const { rows } = await api.pool.query(`select alerted_at from incidents where ${of}`, [
      monitor.params.monitorId,
    ]);
    const untilMs = rows[0].alerted_at.getTime() + 300_000;
    const recent = (await rowsOf(monitor)).silence.find(({ reason }) => reason === 'recent_alert');
    expect(recent?.until).toBe(new Date(untilMs).toISOString());
  });

  it('says of an inactive rule that is broken that it opens nothing', async () => {
    const monitor = await make({ maximum: 10, ruleAction: { mode: 'inactive', version: 1 } });
    expect((await rowsOf(monitor)).silence).toEqual([]);
    await monitor.beat({ rows: 11 });
    const { silence, rules } = await rowsOf(monitor);
    expect(silence).toEqual([{ reason: 'rule_inactive', note: expect.stringContaining('opens nothing') }]);
    expect(rules).toEqual([
      { measurement: 'rows', rule: 'maximum', lastValue: 11, bound: 10, violationsInRow: 1 },
    ]);
  });
});

describe('a change of the rules', () => {
  it.each([
    ['the rule is removed', { rows: { minimum: null, maximum: 50 } }, 'The rule was removed.'],
    ['the measurement is removed', { rows: null }, 'The rule was removed.'],
    [
      'the rule is made inactive',
      { rows: { ruleAction: { mode: 'inactive', version: 1 } } },
      'The rule was made inactive.',
    ],
  ])('%s: its incident is resolved with the change, and others stay', async (_, measurements, note) => {
    const monitor = await make({ minimum: 10 });
    await monitor.patch({ measurements: { other: { maximum: 1 } } });
    await monitor.beat({ rows: 3, other: 2 });
    const changed = await monitor.patch({ measurements });
    expect(changed.body.status.openIncidents).toHaveLength(1);
    const found = await monitor.incidents();
    expect(found.map(({ measurement, state }) => `${measurement} ${state}`).toSorted()).toEqual([
      'other open',
      'rows resolved',
    ]);
    const resolved = found.find(({ state }) => state === 'resolved');
    const params = { incidentId: resolved?.incidentId ?? '' };
    const { body: timeline } = await api.read.expectSuccess('getIncidentTimeline', { params });
    expect(timeline.items).toContainEqual(
      expect.objectContaining({ type: 'resolved', note, actor: expect.anything() }),
    );
    await monitor.beat({ rows: 30, other: 0 });
    expect((await monitor.incidents()).every(({ state }) => state !== 'open')).toBe(true);
    expect((await monitor.read()).status.openIncidents).toEqual([]);
  });

  it('a rule that returns knows nothing of the time before', async () => {
    const monitor = await make({ maximumAbsoluteDelta: 5 });
    await monitor.beat({ rows: 10 });
    await monitor.patch({ measurements: { rows: null } });
    await monitor.beat({ rows: 100 });
    await monitor.patch({ measurements: { rows: { maximumAbsoluteDelta: 5 } } });
    // The value before is 100, of a beat that no rule judged.
    expect((await monitor.beat({ rows: 103 })).body.violations).toEqual([]);
  });

  it('what a rule remembers stays where another rule changes, and where nothing of the rules does', async () => {
    const monitor = await make({ maximumAbsoluteDelta: 5 });
    await monitor.beat({ rows: 10 });
    // So that it cannot be built again.
    await api.pool.query(
      'delete from observations where monitor_key = (select monitor_key from monitors where monitor_id = $1)',
      [monitor.params.monitorId],
    );
    await monitor.patch({ measurements: { other: { maximum: 1 } } });
    await monitor.patch({ name: 'Another name' });
    await monitor.act('pause');
    await monitor.act('resume');
    const delta = { measurement: 'rows', rule: 'maximumAbsoluteDelta', bound: 5, value: 6 };
    expect((await monitor.beat({ rows: 16 })).body.violations).toEqual([delta]);
  });
});
