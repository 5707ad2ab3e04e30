// The status of a Monitor: columns, conditions, and which changes are worth a write.
import { describe, expect, it } from 'vitest';
import type { Monitor, MonitorStatus } from '../../../src/contract/resources/monitor.ts';
import { becauseOf } from '../../../src/domain/explain/because.ts';
import { newLiveState } from '../../../src/domain/monitor.ts';
import type { ConditionFacts } from '../../../src/kube/conditions.ts';
import type {
  MonitorObject,
  MonitorStatusFields,
} from '../../../src/operator/kinds/monitor/monitor-object.ts';
import {
  bindingOf,
  displayCallback,
  displayDeadline,
  displayDuration,
  displayIncident,
  displayInterval,
  healthyCondition,
  incidentChanges,
  isBeatAlone,
  monitorReady,
  monitorStatusOf,
} from '../../../src/operator/kinds/monitor/monitor-status.ts';
import type { BindingState } from '../../../src/operator/known/binding-directory.ts';
import type { CachedMonitorStatus } from '../../../src/operator/known/monitor-status-cache.ts';
import { statusOf, syncedCondition } from '../../../src/operator/pass/status.ts';
import { timingOf } from '../domain/timing.ts';
import { incident, liveStatus, monitorObject, NOW, record } from './resources.ts';

describe('columns', () => {
  it.each([
    [60, '1m'],
    [300, '5m'],
    [90, '1m30s'],
    [3600, '1h'],
    [5400, '1h30m'],
    [86_400, '1d'],
    [90_061, '1d1h'],
    [86_460, '1d'],
    [61.4, '1m1s'],
    [5, '5s'],
    [0, '0s'],
  ])('the column shows %d seconds as %s', (seconds, text) => expect(displayDuration(seconds)).toBe(text));

  it.each<[MonitorStatus['cadence'], string | undefined, string | undefined]>([
    [{ source: 'configured', intervalSeconds: 300 }, undefined, '5m'],
    [{ source: 'schedule' }, '0 2 * * *', 'cron 0 2 * * *'],
    [{ source: 'schedule' }, '0  2 *\t* *', 'cron 0 2 * * *'],
    [{ source: 'schedule' }, undefined, undefined],
    [{ source: 'learned', intervalSeconds: 3600, sampleCount: 20 }, undefined, 'learned 1h'],
    [{ source: 'learning', sampleCount: 2 }, undefined, 'learning'],
  ])('the column shows the cadence %j with the cron %j as %j', (cadence, cron, text) =>
    expect(displayInterval(cadence, cron)).toBe(text),
  );

  it('the column shows the gravest incident and the number of the others', () => {
    const warning = incident({ incidentId: 'inc_2', kind: 'rule_violation', severity: 'warning' });
    const older = incident({ incidentId: 'inc_3', kind: 'overdue_run', openedAt: '2026-02-01T00:00:00Z' });
    expect(displayIncident([])).toBeUndefined();
    expect(displayIncident([warning])).toBe('rule_violation');
    expect(displayIncident([warning, incident()])).toBe('missed_deadline +1');
    expect(displayIncident([warning, incident(), older])).toBe('overdue_run +2');
  });

  it('the column shows the next deadline, and when one was missed while none runs', () => {
    const nextDeadlineAt = '2026-03-01T10:15:00Z';
    expect(displayDeadline(liveStatus({ nextDeadlineAt }))).toBe(nextDeadlineAt);
    expect(displayDeadline(liveStatus({ nextDeadlineAt, openIncidents: [incident()] }))).toBe(nextDeadlineAt);
    expect(displayDeadline(liveStatus({ openIncidents: [incident()] }))).toBe('missed 2026-03-01T00:00:00Z');
    const failed = liveStatus({ openIncidents: [incident({ kind: 'reported_failure' })] });
    expect(displayDeadline(failed)).toBeUndefined();
  });

  it.each([
    [{ kind: 'named', alias: 'oncall' } as const, 'oncall'],
    [{ kind: 'organization_default' } as const, 'default'],
    [{ kind: 'disabled' } as const, 'none'],
    [{ kind: 'inline', url: '' } as const, 'inline'],
  ])('the column shows the callback %j as %s, which reads back', (binding, text) => {
    expect(displayCallback(binding)).toBe(text);
    expect(bindingOf(text)).toEqual(binding);
  });
});

describe('Healthy', () => {
  it.each<[Partial<MonitorStatus>, string, string]>([
    [{ health: 'up' }, 'True', 'Up'],
    [{ health: 'late' }, 'True', 'Late'],
    [{ health: 'recovering', openIncidents: [incident({ state: 'recovering' })] }, 'True', 'Recovering'],
    [{ health: 'maintenance' }, 'True', 'Maintenance'],
    [{ health: 'down' }, 'False', 'Down'],
    [
      { health: 'up', openIncidents: [incident({ severity: 'warning', kind: 'rule_violation' })] },
      'False',
      'IncidentOpen',
    ],
    [{ health: 'up', openIncidents: [incident({ severity: 'info', kind: 'rule_violation' })] }, 'True', 'Up'],
    [{ health: 'waiting' }, 'Unknown', 'Waiting'],
    [{ health: 'paused', openIncidents: [incident()] }, 'Unknown', 'Paused'],
    [{ health: 'archived' }, 'Unknown', 'Archived'],
  ])('a monitor with %j has the condition Healthy %s %s', (fields, status, reason) => {
    expect(healthyCondition({ status: liveStatus(fields) })).toMatchObject({
      type: 'Healthy',
      status,
      reason,
    });
  });

  it('a new monitor has the sentence that the feed will bring, so that its status is written once', () => {
    const state = {
      atMs: NOW,
      timing: timingOf(),
      live: newLiveState(),
      incidents: [],
      outages: [],
      changes: [],
    };
    expect(healthyCondition({ status: liveStatus({ health: 'waiting' }) }).message).toBe(
      becauseOf(state, { running: { parts: [] } }),
    );
  });

  it('the message is the sentence of the feed, or words of the operator where an API says none', () => {
    const messageOf = (health: MonitorStatus['health'], because?: string) =>
      healthyCondition({ status: liveStatus({ health }), because }).message;
    for (const health of ['up', 'down', 'paused'] as const)
      expect(messageOf(health, 'Since noon.')).toBe('Since noon.');
    expect(messageOf('paused')).toBe('The monitor is paused.');
    const deadline = { health: 'waiting', nextDeadlineAt: '2026-03-01T10:05:00Z' } as const;
    expect(healthyCondition({ status: liveStatus(deadline) }).message).toBe(
      'The first beat has not arrived yet.',
    );
    const open = [incident({ severity: 'warning', kind: 'rule_violation' })];
    const status = liveStatus({ openIncidents: open });
    expect(healthyCondition({ status, because: 'Up: … rows is 3.' })).toMatchObject({
      ...{ status: 'False', reason: 'IncidentOpen', message: 'Up: … rows is 3.' },
    });
    expect(healthyCondition({ status }).message).toBe(
      'An incident of severity warning is open: rule_violation.',
    );
  });
});

describe('Ready', () => {
  const target = { endpointId: 'cb_1', kind: 'webhook' as const };
  const named = { kind: 'named', alias: 'a' } as const;
  const byDefault = { kind: 'organization_default' } as const;
  const ref = { name: 'oncall', endpointId: 'cb_1' };
  it.each<
    [
      string,
      BindingState | undefined,
      typeof ref | { name: string; endpointId: undefined } | undefined,
      string,
      string,
    ]
  >([
    ['a target', { binding: named, target }, undefined, 'True', 'Available'],
    ['a disabled binding', { binding: { kind: 'disabled' } }, undefined, 'True', 'Available'],
    [
      'an unknown alias',
      { binding: named, unavailableReason: 'alias_not_found' },
      undefined,
      'False',
      'CallbackNotFound',
    ],
    [
      'a removed endpoint',
      { binding: named, unavailableReason: 'endpoint_removed' },
      undefined,
      'False',
      'CallbackNotFound',
    ],
    [
      'a disabled endpoint',
      { binding: named, unavailableReason: 'endpoint_disabled' },
      undefined,
      'False',
      'EndpointDisabled',
    ],
    [
      'no default',
      { binding: byDefault, unavailableReason: 'no_organization_default' },
      undefined,
      'False',
      'NoOrganizationDefault',
    ],
    [
      'a removed default',
      { binding: byDefault, unavailableReason: 'endpoint_removed' },
      undefined,
      'False',
      'NoOrganizationDefault',
    ],
    [
      'a disabled default',
      { binding: byDefault, unavailableReason: 'endpoint_disabled' },
      undefined,
      'False',
      'EndpointDisabled',
    ],
    ['its own Callback', { binding: named, target }, ref, 'True', 'Available'],
    [
      'a Callback that does not exist',
      { binding: named, target },
      { name: 'oncall', endpointId: undefined },
      'False',
      'CallbackNotFound',
    ],
    [
      'the endpoint of another Callback',
      { binding: named, target: { ...target, endpointId: 'cb_2' } },
      ref,
      'False',
      'CallbackNotFound',
    ],
    ['a binding that was not read yet', undefined, undefined, 'False', 'CallbackUnknown'],
  ])('the condition Ready for a binding with: %s', (_name, binding, callbackRef, status, reason) => {
    expect(monitorReady({ lifecycle: 'active', binding, callbackRef })).toMatchObject({ status, reason });
  });
  it('an archived monitor is Ready whatever its binding is', () => {
    expect(monitorReady({ lifecycle: 'archived', binding: undefined })).toMatchObject({
      status: 'True',
      reason: 'Archived',
    });
  });
});

describe('the status', () => {
  const live = (fields: Partial<MonitorStatus> = {}): CachedMonitorStatus => ({
    ...{ lifecycle: 'active', configurationVersion: 7, atMs: 0 },
    status: liveStatus(fields),
  });
  interface Facts {
    object: MonitorObject;
    latest?: CachedMonitorStatus;
    record?: Monitor;
    fields?: object;
    conditions?: readonly ConditionFacts[];
    isObserved?: boolean;
  }
  /** As a pass with these facts writes it. */
  function statusFrom(facts: Facts): MonitorStatusFields {
    const { object, latest, record, fields = { monitorId: 'mon_1' }, isObserved = true } = facts;
    const { conditions = [syncedCondition()] } = facts;
    const pass = { object, fields, memory: {}, signal: new AbortController().signal, dueInMs: 0 };
    const kind = { statusOf: () => monitorStatusOf({ object, latest, record }) };
    return statusOf(kind, pass, { conditions, isObserved, nowMs: NOW }) as MonitorStatusFields;
  }

  it('the status has the facts of the API and no secret', () => {
    const status = statusFrom({
      object: monitorObject(),
      latest: live({ openIncidents: [incident()] }),
      record: record(),
    });
    expect(status).toMatchObject({
      ...{
        observedGeneration: 3,
        monitorId: 'mon_1',
        configurationVersion: 7,
        health: 'up',
        lifecycle: 'active',
      },
      display: { interval: '5m', incident: 'missed_deadline', callback: 'default' },
    });
    expect(status.conditions?.map(({ type }) => type)).toEqual(['Synced', 'Healthy']);
    expect(JSON.stringify(status)).not.toContain('ping');
  });

  it('a pass without new facts keeps those of the last status, and its generation', () => {
    const first = statusFrom({ object: monitorObject(), latest: live(), record: record() });
    const object = monitorObject({}, { generation: 4 }, first);
    const second = statusFrom({ object, conditions: [], fields: {}, isObserved: false });
    expect(second).toMatchObject({ health: 'up', observedGeneration: 3, display: first.display });
  });

  it('restorableUntil is shown while a monitor is archived, and not after that', () => {
    const archived = { ...live({ health: 'archived' }), lifecycle: 'archived' } as const;
    const restorableUntil = '2026-04-01T00:00:00Z';
    const first = statusFrom({
      object: monitorObject(),
      latest: archived,
      record: record({ restorableUntil }),
    });
    expect(first.restorableUntil).toBe(restorableUntil);
    const object = monitorObject({}, {}, first);
    expect(statusFrom({ object, latest: archived }).restorableUntil).toBe(restorableUntil);
    expect(statusFrom({ object, latest: live() }).restorableUntil).toBeUndefined();
  });

  it.each<[string, Partial<MonitorStatus>, boolean]>([
    [
      'a beat and its deadline',
      { lastBeatAt: '2026-03-01T10:05:00Z', nextDeadlineAt: '2026-03-01T10:15:00Z' },
      true,
    ],
    ['the first beat', { firstBeatAt: '2026-03-01T10:00:00Z' }, false],
    ['being late', { health: 'late' }, true],
    ['being down', { health: 'down' }, false],
    ['an incident', { openIncidents: [incident()] }, false],
    ['another interval', { cadence: { source: 'configured', intervalSeconds: 60 } }, false],
    ['no deadline', { nextDeadlineAt: undefined }, false],
  ])('whether a beat is the only difference of a status: %s', (_name, fields, isAlone) => {
    const before = { lastBeatAt: '2026-03-01T10:00:00Z', nextDeadlineAt: '2026-03-01T10:10:00Z' };
    const first = statusFrom({ object: monitorObject(), latest: live(before), record: record() });
    const object = monitorObject({}, {}, first);
    expect(isBeatAlone(first, statusFrom({ object, latest: live({ ...before, ...fields }) }))).toBe(isAlone);
  });

  it('a monitor that is late no more is up again by a mere beat, and one that is down is not', () => {
    const late = statusFrom({ object: monitorObject(), latest: live({ health: 'late' }), record: record() });
    const object = monitorObject({}, {}, late);
    expect(isBeatAlone(late, statusFrom({ object, latest: live({ health: 'up' }) }))).toBe(true);
    expect(isBeatAlone(late, statusFrom({ object, latest: live({ health: 'down' }) }))).toBe(false);
  });

  it.each<[MonitorStatus['health'], boolean]>([
    ['up', true],
    ['late', true],
    ['waiting', true],
    ['down', false],
    ['paused', false],
    ['maintenance', false],
  ])('whether another sentence of a monitor that is %s counts as a mere beat', (health, isAlone) => {
    const told = (because: string) => ({ ...live({ health }), because });
    const first = statusFrom({ object: monitorObject(), latest: told('One.'), record: record() });
    expect(first.conditions?.find(({ type }) => type === 'Healthy')?.message).toBe('One.');
    const object = monitorObject({}, {}, first);
    expect(isBeatAlone(first, statusFrom({ object, latest: told('Two.') }))).toBe(isAlone);
  });

  it.each<[MonitorStatus['health'], boolean]>([
    ['up', true],
    ['late', true],
    ['recovering', false],
    ['maintenance', false],
  ])(
    'whether another sentence of a monitor that is %s with an open warning counts as a mere beat: %s',
    (health, isAlone) => {
      const warning = incident({ kind: 'rule_violation', severity: 'warning' });
      const told = (because: string | undefined, openIncidents = [warning]) => ({
        ...live({ health, openIncidents }),
        because,
      });
      const first = statusFrom({ object: monitorObject(), latest: told('One.'), record: record() });
      expect(first.conditions?.find(({ type }) => type === 'Healthy')).toMatchObject({
        ...{ reason: 'IncidentOpen', message: 'One.' },
      });
      const object = monitorObject({}, {}, first);
      const isBeat = (latest: CachedMonitorStatus) => isBeatAlone(first, statusFrom({ object, latest }));
      expect(isBeat(told('Two.'))).toBe(isAlone);
      // A read, whose sentence the feed has yet to bring.
      expect(isBeat(told(undefined))).toBe(isAlone);
      // What is open is news, whatever the sentence says.
      expect(isBeat(told('One.', []))).toBe(false);
      expect(isBeat(told('One.', [{ ...warning, state: 'recovering' }]))).toBe(false);
      expect(isBeat(told('One.', [warning, { ...warning, incidentId: 'inc_2' }]))).toBe(false);
    },
  );

  it('other words of a refusal are news, also of a monitor that is up', () => {
    const up = statusFrom({ object: monitorObject(), latest: live(), record: record() });
    const refused = (message: string) => {
      const conditions = up.conditions?.map((one) =>
        one.type === 'Healthy' ? { ...one, status: 'Unknown' as const, reason: 'Refused', message } : one,
      );
      return { ...up, conditions };
    };
    expect(isBeatAlone(refused('One.'), refused('One.'))).toBe(true);
    expect(isBeatAlone(refused('One.'), refused('Two.'))).toBe(false);
  });

  it('a learned cadence that moves a little counts as a mere beat, and the first one does not', () => {
    const learned = (intervalSeconds: number) =>
      live({ cadence: { source: 'learned', intervalSeconds, sampleCount: 9 } });
    const first = statusFrom({ object: monitorObject(), latest: learned(60), record: record() });
    const object = monitorObject({}, {}, first);
    expect(isBeatAlone(first, statusFrom({ object, latest: learned(61) }))).toBe(true);
    const learning = statusFrom({ object, latest: live({ cadence: { source: 'learning' } }) });
    expect(isBeatAlone(first, learning)).toBe(false);
  });
});

describe('incidents between two statuses', () => {
  it('the changes of incidents are those opened and those ended, and no changes of state', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((incidentId) => incident({ incidentId }));
    if (!a || !b || !c) throw new Error('three');
    expect(incidentChanges(undefined, [a])).toEqual({ opened: [a], ended: [] });
    expect(incidentChanges([a, b], [b, c])).toEqual({ opened: [c], ended: [a] });
    expect(incidentChanges([a], [{ ...a, state: 'recovering' }])).toEqual({ opened: [], ended: [] });
  });
});
