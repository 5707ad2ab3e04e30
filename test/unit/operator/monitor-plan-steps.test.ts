// Which calls beside the patch bring a monitor to what its object wants: binding, lifecycle, maintenance, in their order.
import { describe, expect, it } from 'vitest';
import type { Monitor } from '../../../src/contract/resources/monitor.ts';
import type { MonitorPlanFacts } from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import { desired, liveStatus, NOW, plan } from './resources.ts';

const at = (hours: number) => new Date(NOW + hours * 3_600_000).toISOString();

describe('the binding', () => {
  it.each<[string, object, Monitor['callback'], string[], object | undefined]>([
    ['nothing said', {}, { kind: 'disabled' }, [], undefined],
    ['given back', {}, { kind: 'disabled' }, ['callback'], { kind: 'organization_default' }],
    [
      'an alias',
      { kind: 'named', alias: 'a' },
      { kind: 'organization_default' },
      [],
      { kind: 'named', alias: 'a' },
    ],
    ['the same alias', { kind: 'named', alias: 'a' }, { kind: 'named', alias: 'a' }, [], undefined],
    [
      'another address',
      { kind: 'inline', url: 'https://b' },
      { kind: 'inline', url: 'https://a' },
      [],
      { kind: 'inline', url: 'https://b' },
    ],
    [
      'a Callback that is not there yet',
      { kind: 'named', callbackRef: { name: 'on.call' } },
      { kind: 'disabled' },
      [],
      { kind: 'named', alias: 'on-call' },
    ],
  ])('%s', (_name, callback, has, owned, expected) => {
    const spec = Object.keys(callback).length === 0 ? {} : { callback };
    const { steps } = plan(spec, { callback: has }, { owned });
    expect(steps.flatMap((step) => (step.call === 'binding' ? [step.binding] : []))[0]).toEqual(expected);
  });

  it('is to the alias that the Callback has', () => {
    expect(
      desired({ callback: { kind: 'named', callbackRef: { name: 'oncall' } } }, {}, 'the-alias').binding,
    ).toEqual({
      kind: 'named',
      alias: 'the-alias',
    });
  });
});

describe('the lifecycle', () => {
  const actions = (spec: object, has: Partial<Monitor>, facts: Partial<MonitorPlanFacts> = {}) =>
    plan(spec, has, facts).steps.flatMap((step) => (step.call === 'lifecycle' ? [step.body.action] : []));

  it.each<[Monitor['lifecycle'], Monitor['lifecycle'], string[]]>([
    ['active', 'active', []],
    ['active', 'paused', ['pause']],
    ['active', 'archived', ['archive']],
    ['paused', 'active', ['resume']],
    ['paused', 'paused', []],
    ['paused', 'archived', ['archive']],
    ['archived', 'active', ['restore']],
    ['archived', 'paused', ['restore', 'pause']],
    ['archived', 'archived', []],
  ])('%s to %s', (lifecycle, target, expected) => {
    expect(actions({ lifecycle: target }, { lifecycle })).toEqual(expected);
  });

  it('is left alone where the spec says nothing, given back where it did, and woken at a takeover', () => {
    expect(actions({}, { lifecycle: 'paused' })).toEqual([]);
    expect(actions({}, { lifecycle: 'paused' }, { owned: ['lifecycle'] })).toEqual(['resume']);
    expect(actions({}, { lifecycle: 'archived' }, { isTakenOver: true })).toEqual(['restore']);
    expect(actions({}, { lifecycle: 'paused' }, { isTakenOver: true })).toEqual([]);
    expect(actions({ lifecycle: 'archived' }, { lifecycle: 'archived' }, { isTakenOver: true })).toEqual([]);
  });

  it('stops the clock before anything else, and starts it after everything', () => {
    const calls = (spec: object, has: Partial<Monitor>) => plan(spec, has).steps.map(({ call }) => call);
    expect(calls({ lifecycle: 'paused', graceSeconds: 60 }, {})).toEqual(['lifecycle', 'patch']);
    expect(calls({ lifecycle: 'active', graceSeconds: 60 }, { lifecycle: 'paused' })).toEqual([
      'patch',
      'lifecycle',
    ]);
  });

  const running = { startsAt: at(-1), endsAt: at(1), reason: 'move' };
  const withWindow = (maintenance?: Monitor['status']['maintenance']) => ({
    status: liveStatus({ maintenance }),
  });
  it.each<[string, object, Partial<Monitor>, Partial<MonitorPlanFacts>, string[]]>([
    ['a window', { maintenance: running }, {}, {}, ['enter_maintenance']],
    [
      'the same window',
      { maintenance: running },
      withWindow({ ...running, startsAt: running.startsAt.replace('Z', '+00:00') }),
      {},
      [],
    ],
    [
      'another window',
      { maintenance: running },
      withWindow({ ...running, endsAt: at(2) }),
      {},
      ['enter_maintenance'],
    ],
    ['one that is over', { maintenance: { startsAt: at(-2), endsAt: at(-1) } }, {}, {}, []],
    ['one that was taken out', {}, withWindow(running), { owned: ['maintenance'] }, ['exit_maintenance']],
    ['one of others', {}, withWindow(running), {}, []],
    [
      'one of others after ours ran out',
      { maintenance: { startsAt: at(-2), endsAt: at(-1) } },
      withWindow(running),
      { owned: ['maintenance'], isChanged: false },
      [],
    ],
    [
      'one that was replaced by one that is over',
      { maintenance: { startsAt: at(-2), endsAt: at(-1) } },
      withWindow(running),
      { owned: ['maintenance'], isChanged: true },
      ['exit_maintenance'],
    ],
    ['one for a paused monitor', { maintenance: running }, { lifecycle: 'paused' }, {}, []],
    [
      'one for a monitor that wakes',
      { maintenance: running, lifecycle: 'active' },
      { lifecycle: 'paused' },
      {},
      ['resume', 'enter_maintenance'],
    ],
  ])('%s', (_name, spec, has, facts, expected) => {
    expect(actions(spec, has, facts)).toEqual(expected);
  });
});
