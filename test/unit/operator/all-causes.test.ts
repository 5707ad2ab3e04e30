// The causes of all monitors as one state, within the bounds of the API; what pods ask for, and how quantities compare.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  MAX_CAUSE_MONITORS,
  MAX_CAUSES,
  setOperatorCausesBody,
} from '../../../src/contract/resources/operator-causes.ts';
import { type NamedCause, OPERATOR_CAUSES } from '../../../src/domain/operator-cause.ts';
import { allCauses, type Concern } from '../../../src/operator/workloads/causes/all-causes.ts';
import { needsOf } from '../../../src/operator/workloads/causes/pod-needs.ts';
import { thousandths } from '../../../src/operator/workloads/causes/quantity.ts';

const PROJECT = '0192a0c0-0000-7000-8000-000000000001';
const concern = (monitorId: string, cause: NamedCause['cause'], object: string): Concern => ({
  monitor: { projectId: PROJECT, monitorId },
  cause: { cause, object },
});
const sizes = (concerns: Concern[]) =>
  allCauses(concerns).map(({ object, monitors }) => [object, monitors.length]);

describe('the causes of all monitors', () => {
  it('have each cause once, with its monitors, whatever the order in which they were found', () => {
    const concerns = [
      concern('mon_c', 'image_cannot_be_pulled', 'a:1'),
      concern('mon_b', 'node_not_ready', 'worker-3'),
      concern('mon_a', 'node_not_ready', 'worker-3'),
    ];
    const wanted = [
      {
        cause: 'node_not_ready',
        object: 'worker-3',
        monitors: [
          { projectId: PROJECT, monitorId: 'mon_a' },
          { projectId: PROJECT, monitorId: 'mon_b' },
        ],
      },
      {
        cause: 'image_cannot_be_pulled',
        object: 'a:1',
        monitors: [{ projectId: PROJECT, monitorId: 'mon_c' }],
      },
    ];
    expect(allCauses(concerns)).toEqual(wanted);
    expect(allCauses(concerns.toReversed())).toEqual(wanted);
    expect(allCauses([])).toEqual([]);
  });

  it('name a monitor that two objects claim once, with the cause that explains the other', () => {
    const twice = [
      concern('mon_a', 'quota_exceeded', 'shop/small'),
      concern('mon_a', 'node_not_ready', 'worker-3'),
    ];
    expect(sizes(twice)).toEqual([['worker-3', 1]]);
  });

  it('that are too many leave those out that concern the fewest monitors', () => {
    const lone = Array.from({ length: MAX_CAUSES }, (_, n) =>
      concern(`mon_${n}`, 'node_not_ready', `a-${String(n).padStart(4, '0')}`),
    );
    const pair = [concern('mon_x', 'node_not_ready', 'z'), concern('mon_y', 'node_not_ready', 'z')];
    const kept = sizes([...lone, ...pair]);
    expect(kept).toHaveLength(MAX_CAUSES);
    expect(kept.at(-1)).toEqual(['z', 2]);
    const many = Array.from({ length: MAX_CAUSE_MONITORS }, (_, n) =>
      concern(`mon_${n}`, 'node_not_ready', 'b'),
    );
    const more = [concern('mon_one', 'node_not_ready', 'a'), concern('mon_two', 'node_not_ready', 'b')];
    expect(sizes([...more, ...many])).toEqual([['b', MAX_CAUSE_MONITORS]]);
  });

  it('are always a body that the API takes', () => {
    const one = fc.record({
      monitorId: fc.stringMatching(/^mon_[0-9]{1,2}$/),
      cause: fc.constantFrom(...OPERATOR_CAUSES),
      object: fc.constantFrom('a', 'b', 'c'),
    });
    fc.assert(
      fc.property(fc.array(one), (all) => {
        const causes = allCauses(
          all.map(({ monitorId, cause, object }) => concern(monitorId, cause, object)),
        );
        expect(setOperatorCausesBody.safeParse({ causes }).success).toBe(true);
        const named = causes.flatMap(({ monitors }) => monitors.map(({ monitorId }) => monitorId));
        expect(new Set(named)).toEqual(new Set(all.map(({ monitorId }) => monitorId)));
      }),
    );
  });
});

describe('a quantity', () => {
  it.each([
    ['1', 1000],
    ['500m', 500],
    ['0.29', 290],
    ['1e3', 1_000_000],
    ['1E3', 1_000_000],
    ['2k', 2_000_000],
    ['1E', 1e21],
    ['1Ki', 1_024_000],
    ['1.5Gi', 1.5 * 2 ** 30 * 1000],
    ['100u', 1],
    [3, 3000],
  ])('%s is %d thousandths', (text, wanted) => {
    expect(thousandths(text)).toBe(wanted);
  });

  it.each(['', 'many', '1 Gi', '1Kib', undefined])('%s is none', (text) => {
    expect(thousandths(text)).toBeUndefined();
  });
});

describe('a pod asks for', () => {
  const requests = (cpu: string) => ({ resources: { requests: { cpu } } });

  it('the sum of its containers, or what an init container asks for that is more', () => {
    expect(needsOf({ containers: [requests('200m'), requests('300m')] })).toEqual({ 'requests.cpu': 500 });
    const init = { containers: [requests('200m')], initContainers: [requests('1')] };
    expect(needsOf(init)).toEqual({ 'requests.cpu': 1000 });
    const sidecar = { ...requests('100m'), restartPolicy: 'Always' };
    expect(needsOf({ ...init, initContainers: [sidecar, requests('1')] })).toEqual({ 'requests.cpu': 1100 });
    expect(needsOf({ containers: [requests('1')], initContainers: [sidecar] })).toEqual({
      'requests.cpu': 1100,
    });
  });

  it('its limit where it states no request, its overhead on top, and nothing that it does not state', () => {
    const limited = { resources: { limits: { memory: '1Ki' } } };
    const stated = { 'requests.memory': 1_024_000, 'limits.memory': 1_024_000 };
    expect(needsOf({ containers: [limited] })).toEqual(stated);
    const overhead = { cpu: '250m', memory: '1Ki' };
    expect(needsOf({ containers: [limited], overhead })).toEqual({
      'requests.memory': 2_048_000,
      'limits.memory': 2_048_000,
    });
    expect(needsOf({ containers: [{}] })).toEqual({});
    expect(needsOf(undefined)).toEqual({});
  });
});
