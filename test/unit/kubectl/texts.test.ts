// What the commands of `kubectl beat` print, as pure functions of what they have read.
import { describe, expect, it } from 'vitest';
import { describeAcknowledged } from '../../../src/kubectl/commands/ack.ts';
import { signInUrl } from '../../../src/kubectl/commands/dashboard.ts';
import { describeExplanation, type Explanation } from '../../../src/kubectl/commands/explain.ts';
import { describeLifecycle } from '../../../src/kubectl/commands/lifecycle.ts';
import { describeMaintenance, readWindow } from '../../../src/kubectl/commands/maintenance.ts';
import { describeReplay } from '../../../src/kubectl/commands/replay.ts';
import { describeBeat, readBeat } from '../../../src/kubectl/commands/send.ts';
import { describeStatus, toStatusItems } from '../../../src/kubectl/commands/status.ts';
import { isMonitorOf } from '../../../src/kubectl/monitor-at-api.ts';
import type { MonitorObject, RuleObject } from '../../../src/kubectl/objects.ts';
import { signInPage } from '../../../src/kubectl/sign-in-file.ts';

const NOW_MS = Date.parse('2026-11-21T12:45:00Z');

function monitor(
  name: string,
  health: string | undefined,
  more: { ready?: string; severity?: string; namespace?: string } = {},
): MonitorObject {
  const { ready = 'True', severity, namespace = 'payments' } = more;
  const conditions = [
    { type: 'Ready', status: ready, reason: 'Available', message: `${name} is ready: ${ready}.` },
    { type: 'Healthy', status: 'True', reason: 'Up', message: `${name} is ${health}.` },
  ];
  const incident = {
    incidentId: `inc_${name}`,
    kind: 'rule_violation',
    state: 'open',
    severity,
    openedAt: '2026-11-21T12:41:43Z',
  };
  const status = { health, conditions, openIncidents: severity ? [incident] : [] };
  return { metadata: { name, namespace }, spec: {}, status } as object as MonitorObject;
}

describe('the text of status', () => {
  it('down is first, then late and recovering, what has an incident or is not ready, then the rest by health and name', () => {
    const items = toStatusItems([
      monitor('z-up', 'up'),
      monitor('paused', 'paused'),
      monitor('a-up', 'up'),
      monitor('with-info', 'up', { severity: 'info' }),
      monitor('with-warning', 'up', { severity: 'warning' }),
      monitor('not-ready', 'waiting', { ready: 'False' }),
      monitor('waiting', 'waiting'),
      monitor('recovering', 'recovering'),
      monitor('late', 'late'),
      monitor('down', 'down', { severity: 'critical' }),
      monitor('unseen', undefined),
    ]);
    expect(items.map(({ name }) => name)).toEqual([
      'down',
      'late',
      'recovering',
      'unseen',
      'not-ready',
      'with-warning',
      'waiting',
      'paused',
      'a-up',
      'with-info',
      'z-up',
    ]);
  });

  it('a Monitor that no operator has seen has the health unknown, and no invented fields', () => {
    const [item] = toStatusItems([{ metadata: { name: 'new', namespace: 'a' }, spec: {} } as MonitorObject]);
    expect(JSON.parse(JSON.stringify(item))).toEqual({
      namespace: 'a',
      name: 'new',
      health: 'unknown',
      ready: { status: 'Unknown' },
      openIncidents: [],
    });
  });

  it('only what is wrong has its reason, and the counts come last', () => {
    const up = monitor('up', 'up');
    Object.assign(up.status ?? {}, {
      lastBeatAt: '2026-11-21T12:44:48Z',
      nextDeadlineAt: '2026-11-21T12:51:43.031Z',
    });
    const items = toStatusItems([up, monitor('worker', 'down')]);
    expect(describeStatus(items, NOW_MS, false)).toBe(
      [
        'NAME     HEALTH   LAST BEAT   NEXT DEADLINE             WHY',
        'worker   down                                           worker is down.',
        'up       up       12s         2026-11-21 12:51:43 UTC',
        '',
        '2 Monitors: 1 down, 1 up.',
      ].join('\n'),
    );
  });

  it('a Monitor that cannot alert says so beside its health', () => {
    const text = describeStatus(toStatusItems([monitor('worker', 'up', { ready: 'False' })]), NOW_MS, true);
    expect(text).toContain('payments    worker');
    expect(text).toContain('worker is up. Not ready, Available: worker is ready: False.');
  });
});

describe('the text of explain', () => {
  const explanation: Explanation = {
    monitorId: 'mon_1',
    at: '2026-11-21T12:45:00Z',
    health: 'up',
    because: 'Up: the last beat came at 12:00:00 UTC.',
    deadline: {
      at: '2026-11-21T13:05:00Z',
      parts: [
        { kind: 'last_beat', at: '2026-11-21T12:00:00Z', note: 'The last beat came.' },
        { kind: 'interval', seconds: 3_600, note: 'The interval is 60 min.' },
        { kind: 'grace', seconds: 300, note: 'The grace is 5 min.' },
      ],
    },
    rules: [
      { measurement: 'rows', rule: 'minimum', lastValue: 3, bound: 10, violationsInRow: 1, opensAt: 2 },
    ],
    silence: [{ reason: 'maintenance', until: '2026-11-21T14:00:00Z', note: 'A window runs.' }],
  };
  const incident = {
    incidentId: 'inc_worker',
    kind: 'rule_violation',
    state: 'open',
    severity: 'warning',
    openedAt: '2026-11-21T12:41:43Z',
  } as const;

  it('the sentence is first, then the sum of the deadline, the rules, what is silent, and incidents', () => {
    const text = describeExplanation(explanation, [incident]);
    expect(text).toBe(
      [
        'Up: the last beat came at 12:00:00 UTC.',
        '',
        'Deadline 2026-11-21 13:05:00 UTC:',
        '  last_beat   2026-11-21 12:00:00 UTC         The last beat came.',
        '  interval                              +1h   The interval is 60 min.',
        '  grace                                 +5m   The grace is 5 min.',
        '',
        'Rules:',
        '  rows minimum 10   last 3   1 violations in a row, opens at 2',
        '',
        'What keeps alerts back:',
        '  maintenance   until 2026-11-21 14:00:00 UTC   A window runs.',
        '',
        'Open incidents now:',
        '  inc_worker   rule_violation   warning   open   since 2026-11-21 12:41:43 UTC',
      ].join('\n'),
    );
  });

  it('what is empty has no heading', () => {
    const bare = { ...explanation, deadline: { parts: [] }, rules: [], silence: [] };
    expect(describeExplanation(bare, [])).toBe(explanation.because);
  });
});

describe('the text of changes', () => {
  it('a change of lifecycle says what it did, and what it left', () => {
    const change = { namespace: 'payments', name: 'worker', lifecycle: 'paused' } as const;
    expect(describeLifecycle({ ...change, isChanged: true })).toEqual({
      json: { ...change, changed: true },
      text: 'monitor.beatkeeper.dev/worker paused',
    });
    expect(describeLifecycle({ ...change, isChanged: false }).text).toContain('unchanged');
  });

  it('a window begins now, has whole seconds, and takes the reason of an earlier one away', () => {
    const window = readWindow({ duration: '2h', reason: undefined, isEnd: false }, NOW_MS + 500);
    expect(window).toEqual({
      startsAt: '2026-11-21T12:45:00Z',
      endsAt: '2026-11-21T14:45:00Z',
      reason: null,
    });
    expect(describeMaintenance({ namespace: 'payments', name: 'worker', window })).toEqual({
      json: {
        namespace: 'payments',
        name: 'worker',
        maintenance: { startsAt: '2026-11-21T12:45:00Z', endsAt: '2026-11-21T14:45:00Z' },
      },
      text: 'monitor.beatkeeper.dev/worker in maintenance until 2026-11-21 14:45:00 UTC',
    });
  });

  it.each([
    [{ duration: undefined, reason: undefined, isEnd: false }, 'State how long'],
    [{ duration: '31d', reason: undefined, isEnd: false }, 'at most 30 days'],
    [{ duration: '2h', reason: undefined, isEnd: true }, 'state either'],
    [{ duration: 'soon', reason: undefined, isEnd: false }, '--for soon is no duration'],
  ])('a window that cannot be is refused: %j', (options, sentence) => {
    expect(() => readWindow(options, NOW_MS)).toThrow(sentence);
  });

  it('an acknowledgement has a line for each incident', () => {
    const incident = { incidentId: 'inc_1', summary: 'No beat came.' };
    const incidents = [incident as Parameters<typeof describeAcknowledged>[1][number]];
    expect(describeAcknowledged('worker', incidents).text).toBe('incident inc_1 acknowledged: No beat came.');
    expect(describeAcknowledged('worker', [])).toEqual({
      json: { items: [] },
      text: 'The Monitor worker has no open incident.',
    });
  });

  it('the address of the dashboard has the token in its fragment, which no server sees', () => {
    const { pathname, hash } = new URL(signInUrl('http://127.0.0.1:8080', 'a.b.c'));
    expect({ pathname, hash }).toEqual({ pathname: '/sign-in', hash: '#token=a.b.c' });
  });
});

describe('the page that leads a browser to the dashboard', () => {
  it('has the address once as a link and once as where it goes, and no markup of the address', () => {
    const url = `https://a.example/"><script>alert(1)</script>&'#token=x`;
    const escaped = 'https://a.example/&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#38;&#39;#token=x';
    const page = signInPage(url);
    expect(page).toContain(`content="0;url=${escaped}"`);
    expect(page).toContain(`href="${escaped}"`);
    expect(page).not.toContain('<script');
  });
});

describe('whose a monitor is', () => {
  const uid = '3d0b9f4e-8a6f-4c59-9d62-2f5f3c3a1e11';
  const object = { metadata: { name: 'worker', namespace: 'payments', uid }, spec: {} } as MonitorObject;
  const origin = { kind: 'Monitor', namespace: 'payments', name: 'worker' } as const;

  it.each([
    ['has the id that follows from the UID', { monitorId: 'mon_3d0b9f4e8a6f4c599d622f5f3c3a1e11' }, true],
    ['was taken over', { monitorId: 'by-hand', origin }, true],
    ['has no origin', { monitorId: 'by-hand' }, false],
    ['is of another name', { monitorId: 'by-hand', origin: { ...origin, name: 'other' } }, false],
    ['is of another namespace', { monitorId: 'by-hand', origin: { ...origin, namespace: 'other' } }, false],
    ['is of another kind', { monitorId: 'by-hand', origin: { ...origin, kind: 'CronJob' as const } }, false],
  ])('one that %s', (_title, record, isOwn) => {
    expect(isMonitorOf(object, record)).toBe(isOwn);
  });
});

describe('a beat of send', () => {
  it.each([
    [{}, { status: 'success' }],
    [
      { fail: true, message: 'disk full' },
      { status: 'fail', message: 'disk full' },
    ],
    [
      { start: true, 'run-id': 'night-1' },
      { status: 'start', runId: 'night-1' },
    ],
    [{ log: true }, { status: 'log' }],
    [{ 'exit-status': '0' }, { status: 'success', exitStatus: 0 }],
    [{ 'exit-status': '3' }, { status: 'fail', exitStatus: 3 }],
    [
      { measurement: ['rows=3', 'delta=-0.5'] },
      { status: 'success', measurements: { rows: 3, delta: -0.5 } },
    ],
  ])('options make its body: %j', (values, body) => {
    expect(readBeat(values)).toEqual(body);
  });

  it.each([
    [{ fail: true, start: true }, 'state either --fail or --start'],
    [{ 'exit-status': '-1' }, 'is no exit code'],
    [{ measurement: ['rows'] }, '--measurement rows is no measurement'],
    [{ measurement: ['rows=many'] }, '--measurement rows=many is no measurement'],
  ])('what is no beat is refused: %j', (values, sentence) => {
    expect(() => readBeat(values)).toThrow(sentence);
  });

  it('the answer says the number, the next deadline, and each rule that it breaks', () => {
    const { text } = describeBeat({
      namespace: 'payments',
      name: 'worker',
      status: 'success',
      sequence: 7,
      receivedAt: '2026-11-21T12:45:00Z',
      violations: [{ measurement: 'rows', rule: 'minimum', bound: 10, value: 3 }],
    });
    expect(text).toBe(
      'Accepted as beat 7 of worker (success) at 2026-11-21 12:45:00 UTC. No deadline runs.\nIt breaks a rule: rows minimum 10, and it is 3.',
    );
  });
});

describe('the text of replay', () => {
  const numbers = {
    observationCount: 9,
    currentIncidents: 1,
    proposedIncidents: 3,
    added: 2,
    removed: 0,
    refusedCount: 0,
  };
  const rule = (generation: number): RuleObject =>
    ({
      metadata: { name: 'rows', namespace: 'payments', generation },
      spec: {},
      status: {
        replay: {
          generation: 2,
          since: '2026-10-22T12:45:00Z',
          until: '2026-11-21T12:45:00Z',
          finishedAt: '2026-11-21T12:45:01Z',
          progress: 'replayed 2 of 2',
          matched: 2,
          replayed: 1,
          omitted: 1,
          total: numbers,
          monitors: [{ name: 'worker', ...numbers }],
          omissions: [{ reason: 'SetByMonitor', message: 'It sets rows.', count: 1, monitor: 'other' }],
          cursor: 'worker',
        },
      },
    }) as object as RuleObject;

  it('it is a table with the sum, and what was left out', () => {
    const { text, json } = describeReplay(rule(2));
    expect(text).toBe(
      [
        'MONITOR   CURRENT   PROPOSED   ADDED   REMOVED   REFUSED',
        'worker    1         3          2       0         0',
        'all       1         3          2       0         0',
        '',
        'Replayed 1 of 2 Monitors, from 2026-10-22 12:45:00 UTC to 2026-11-21 12:45:00 UTC.',
        'Left out: 1, such as other. It sets rows.',
      ].join('\n'),
    );
    expect(json).toMatchObject({ namespace: 'payments', name: 'rows', current: true, matched: 2 });
    expect(json).not.toHaveProperty('cursor');
  });

  it('one of a definition that has changed since then says so', () => {
    const { text, json } = describeReplay(rule(3));
    expect(text).toContain('The Rule has changed since then');
    expect(json).toMatchObject({ current: false });
  });
});
