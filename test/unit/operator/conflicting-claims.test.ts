// Which objects claim the same monitor: those of all namespaces that are one project.
import { expect, it } from 'vitest';
import type { KubeObject } from '../../../src/kube/kube-object.ts';
import { ObjectStore } from '../../../src/kube/object-store.ts';
import { createMonitorStore } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { findHolder, hasConflictingClaim } from '../../../src/operator/pass/conflicting-claims.ts';
import { monitorObject } from './resources.ts';

it('are of one project, however their namespaces write its name', () => {
  const namespaces = new ObjectStore<KubeObject>();
  const projects = { shop: 'Web  Shop', stock: ' web shop', other: 'Web Shop 2' };
  for (const [name, project] of Object.entries(projects))
    namespaces.put({ metadata: { name, annotations: { 'beatkeeper.dev/project': project } } });
  const store = createMonitorStore();
  const [shop, stock, other] = Object.keys(projects).map((namespace) => {
    const annotations = { 'beatkeeper.dev/monitor-id': 'shared' };
    const status = namespace === 'shop' ? { monitorId: 'shared' } : {};
    const object = monitorObject({}, { namespace, uid: `uid-${namespace}`, annotations }, status);
    store.put(object);
    return object;
  });
  if (!shop || !stock || !other) throw new Error('An object is missing.');
  const conflicts = [shop, stock, other].map((object) =>
    hasConflictingClaim({ namespaces }, { store, object, id: 'shared' }),
  );
  expect(conflicts).toEqual([true, true, false]);
  expect(findHolder({ namespaces }, { store, object: stock, id: 'shared' })).toBe(shop);
  expect(findHolder({ namespaces }, { store, object: other, id: 'shared' })).toBe(other);
});
