// ObjectStore against a plain map, for any sequence of writes.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../src/kube/kube-object.ts';
import { ObjectStore } from '../../../src/kube/object-store.ts';

interface Thing extends KubeObject {
  tags: string[];
}

let version = 0;
const thing = (name: string, more: Partial<Thing['metadata']> = {}, tags: string[] = []): Thing => ({
  metadata: { name, namespace: 'n', uid: `uid-${name}`, resourceVersion: String(++version), ...more },
  tags,
});
const newStore = () => new ObjectStore<Thing>({ indexes: { tag: (object) => object.tags } });

describe('an object store', () => {
  it('a write returns the changes that it made', () => {
    const store = newStore();
    const first = thing('a');
    expect(store.put(first)).toEqual([{ type: 'added', key: 'n/a', object: first }]);
    expect(store.put(first)).toEqual([]);
    const second = thing('a');
    expect(store.put(second)).toEqual([{ type: 'updated', key: 'n/a', object: second, previous: first }]);
    expect(store.remove('n/a')).toEqual([{ type: 'deleted', key: 'n/a', object: second }]);
    expect(store.remove('n/a')).toEqual([]);
    store.put(second);
    const last = { ...second, metadata: { ...second.metadata, resourceVersion: '9' } };
    expect(store.remove('n/a', last)).toEqual([
      { type: 'deleted', key: 'n/a', object: last, isLastState: true },
    ]);
    // The last state of another object of the name says nothing about this one.
    store.put(second);
    const other = { ...last, metadata: { ...last.metadata, uid: 'other' } };
    expect(store.remove('n/a', other)).toEqual([{ type: 'deleted', key: 'n/a', object: second }]);
  });

  it('an object with another uid gives a deletion, then an addition', () => {
    const store = newStore();
    const old = thing('a', { uid: 'old' });
    const made = thing('a', { uid: 'new' });
    store.put(old);
    expect(store.put(made)).toEqual([
      { type: 'deleted', key: 'n/a', object: old },
      { type: 'added', key: 'n/a', object: made },
    ]);
  });

  it('listBy throws an error that names the unknown index', () => {
    expect(() => newStore().listBy('colour', 'red')).toThrow('no index colour');
  });

  it('a lookup by namespace or index finds the same objects as a search of all', () => {
    const write = fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      namespace: fc.constantFrom('n', 'm'),
      tags: fc.uniqueArray(fc.constantFrom('x', 'y', 'z')),
      remove: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(write, { maxLength: 40 }), (writes) => {
        const store = newStore();
        const model = new Map<string, Thing>();
        for (const { name, namespace, tags, remove } of writes) {
          const key = `${namespace}/${name}`;
          const object = thing(name, { namespace, uid: key }, tags);
          if (remove) store.remove(key);
          else store.put(object);
          if (remove) model.delete(key);
          else model.set(key, object);
        }
        const sorted = (things: Iterable<Thing>) =>
          [...things].sort((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion));
        expect(sorted(store.values())).toEqual(sorted(model.values()));
        for (const tag of ['x', 'y', 'z']) {
          const found = [...model.values()].filter((object) => object.tags.includes(tag));
          expect(sorted(store.listBy('tag', tag))).toEqual(sorted(found));
        }
        for (const namespace of ['n', 'm']) {
          const found = [...model.values()].filter((object) => object.metadata.namespace === namespace);
          expect(sorted(store.listInNamespace(namespace))).toEqual(sorted(found));
        }
      }),
    );
  });
});
