// What the operator remembers of objects: refusals, and which objects are another release's.
import { describe, expect, it } from 'vitest';
import { MONITOR_IDENTITY, type MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { ObjectCache, refusedFault } from '../../../src/operator/known/object-cache.ts';
import { monitorObject } from './resources.ts';

describe('a refusal', () => {
  const fault = { reason: 'Refused', message: 'No.' };
  const refusal = { desiredHash: 'a', code: 'service.validation_failed', fault };

  it('a refusal holds only for the desired state that was refused', () => {
    const memory = { refusal: { ...refusal, untilMs: Number.POSITIVE_INFINITY } };
    expect(refusedFault(memory, 'a', 1e12)).toEqual(fault);
    expect(refusedFault(memory, 'b', 0)).toBeUndefined();
    expect(refusedFault({}, 'a', 0)).toBeUndefined();
  });

  it('a refusal for a limit of the plan ends by itself', () => {
    const memory = { refusal: { ...refusal, code: 'service.plan_limit_reached', untilMs: 1000 } };
    expect(refusedFault(memory, 'a', 999)).toEqual(fault);
    expect(refusedFault(memory, 'a', 1000)).toBeUndefined();
  });
});

describe('a cache of objects', () => {
  it('no index has an object that another release manages: it is no rival and no default', () => {
    const cache = new ObjectCache<MonitorObject>(MONITOR_IDENTITY, 'a/beatkeeper', { all: () => ['true'] });
    const managedBy = (uid: string, release?: string) =>
      cache.put(
        monitorObject(
          {},
          { name: uid, uid, annotations: release && { 'beatkeeper.dev/managed-by': release } },
        ),
      );
    managedBy('ours', 'a/beatkeeper');
    managedBy('new');
    managedBy('theirs', 'b/beatkeeper');
    expect(cache.listBy('all', 'true').map(({ metadata }) => metadata.uid)).toEqual(['ours', 'new']);
    expect(cache.listBy('id', 'mon_theirs')).toEqual([]);
    expect([cache.size, cache.ofOtherReleases]).toEqual([3, 1]);
  });
});
