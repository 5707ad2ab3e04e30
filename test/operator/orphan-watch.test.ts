// What is judged while objects come and go: two listings in a row must call an object gone, and it is looked for again right
// before each call.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type OrphanFixture, openOrphanFixture } from './orphan-fixture.ts';

describe('what the operator reports of monitors that have lost their objects', () => {
  let fixture: OrphanFixture;
  beforeAll(async () => {
    fixture = await openOrphanFixture();
  });
  afterAll(() => fixture?.close());
  beforeEach(() => {
    fixture.sights.clear();
    fixture.onLook.call = () => undefined;
  });
  const settle = async () => {
    await fixture.list();
    return await fixture.watch.settle(fixture.signal);
  };

  it('an object that went while the feed was listed is no orphan: two listings in a row must call it gone', async () => {
    const { monitorId, name } = await fixture.make();
    fixture.sights.set(name, 'gone');
    expect((await settle()).orphans).toEqual([]);
    expect(await fixture.orphanedAt(monitorId)).toBeUndefined();
    // Seen in between: it begins again.
    fixture.sights.set(name, 'there');
    await settle();
    fixture.sights.set(name, 'gone');
    expect((await settle()).orphans).toEqual([]);
    expect((await settle()).orphans.map((one) => one.monitorId)).toEqual([monitorId]);
    expect(await fixture.orphanedAt(monitorId)).toBeDefined();
  });

  it('what came back before the call that reports it is not reported', async () => {
    const { monitorId, name } = await fixture.make();
    fixture.sights.set(name, 'gone');
    await settle();
    // It is judged, and then it is there.
    fixture.onLook.call = (declared) => {
      if (declared.name !== name) return;
      fixture.onLook.call = () => void fixture.sights.set(name, 'there');
    };
    await settle();
    expect(await fixture.orphanedAt(monitorId)).toBeUndefined();
  });

  it('what went before the call that reports it as seen stays orphaned', async () => {
    const { monitorId, name } = await fixture.make();
    await fixture.calls.report({ orphaned: [monitorId] });
    fixture.onLook.call = (declared) => {
      if (declared.name !== name) return;
      fixture.onLook.call = () => void fixture.sights.set(name, 'gone');
    };
    await settle();
    expect(await fixture.orphanedAt(monitorId)).toBeDefined();
  });
});
