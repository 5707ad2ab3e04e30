// Which calls beside the patch bring a monitor to its desired state, in order: binding, lifecycle, maintenance.
import { describe, expect, it } from 'vitest';
import type { Monitor } from '../../../src/contract/resources/monitor.ts';
import type { MonitorPlanFacts } from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import { desired, liveStatus, NOW, plan } from './resources.ts';

const at = (hours: number) => new Date(NOW + hours * 3_600_000).toISOString();

describe('the binding', () => {
  it.each<[string, object, Monitor['callback'], string[], object | undefined]>([
    ['no callback', {}, { kind: 'disabled' }, [], undefined],
    [
      'a callback that left the spec',
      {},
      { kind: 'disabled' },
      ['callback'],
      { kind: 'organization_default' },
    ],
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
      'a Callback that does not exist yet',
      { kind: 'named', callbackRef: { name: 'on.call' } },
      { kind: 'disabled' },
      [],
      { kind: 'named', alias: 'on-call' },
    ],
  ])('the binding for a spec with: %s', (_name, callback, has, owned, expected) => {
    const spec = Object.keys(callback).length === 0 ? {} : { callback };
    const { steps } = plan(spec, { callback: has }, { owned });
    expect(steps.flatMap((step) => (step.call === 'binding' ? [step.binding] : []))[0]).toEqual(expected);
  });

  it('a binding to a Callback has the alias of the Callback', () => {
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
  ])('the lifecycle actions from %s to %s are %j', (lifecycle, target, expected) => {
    expect(actions({ lifecycle: target }, { lifecycle })).toEqual(expected);
  });

  it('an unset lifecycle is kept, one that left the spec becomes active, and a takeover restores an archived monitor', () => {
    expect(actions({}, { lifecycle: 'paused' })).toEqual([]);
    expect(actions({}, { lifecycle: 'paused' }, { owned: ['lifecycle'] })).toEqual(['resume']);
    expect(actions({}, { lifecycle: 'archived' }, { isTakenOver: true })).toEqual(['restore']);
    expect(actions({}, { lifecycle: 'paused' }, { isTakenOver: true })).toEqual([]);
    expect(actions({ lifecycle: 'archived' }, { lifecycle: 'archived' }, { isTakenOver: true })).toEqual([]);
  });

  it('a plan stops the clock first, and starts it last', () => {
    const calls = (spec: object, has: Partial<Monitor>) => plan(spec, has).steps.map(({ call }) => call);
    expect(calls({ lifecycle: 'paused', graceSeconds: 60 }, {})).toEqual(['lifecycle', 'patch']);
    expect(calls({ lifecycle: 'active', graceSeconds: 60 }, { lifecycle: 'paused' })).toEqual([
      'patch',
      'lifecycle',
    ]);
  });

  const running = { startsAt: at(-1), endsAt: at(1), reason: 'move' };
  const withWindow = (maintenance?: Monitor['status']['maintenance']) => ({
    maintenance,
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
    ['a window that is over', { maintenance: { startsAt: at(-2), endsAt: at(-1) } }, {}, {}, []],
    [
      'a window that left the spec',
      {},
      withWindow(running),
      { owned: ['maintenance'] },
      ['exit_maintenance'],
    ],
    ['a window set elsewhere', {}, withWindow(running), {}, []],
    [
      'a window set elsewhere after that of the spec has ended',
      { maintenance: { startsAt: at(-2), endsAt: at(-1) } },
      withWindow(running),
      { owned: ['maintenance'], isChanged: false },
      [],
    ],
    [
      'a window that was replaced by one that is over',
      { maintenance: { startsAt: at(-2), endsAt: at(-1) } },
      withWindow(running),
      { owned: ['maintenance'], isChanged: true },
      ['exit_maintenance'],
    ],
    ['a window for a paused monitor', { maintenance: running }, { lifecycle: 'paused' }, {}, []],
    [
      'a window for a monitor that resumes',
      { maintenance: running, lifecycle: 'active' },
      { lifecycle: 'paused' },
      {},
      ['resume', 'enter_maintenance'],
    ],
  ])('the lifecycle actions for a maintenance with: %s', (_name, spec, has, facts, expected) => {
    expect(actions(spec, has, facts)).toEqual(expected);
  });
});
