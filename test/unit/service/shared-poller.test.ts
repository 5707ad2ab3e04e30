// Many callers that wait, one query at a time.
import { describe, expect, it } from 'vitest';
import { SharedPoller } from '../../../src/service/calls/shared-poller.ts';
import { waitFor } from '../../support/wait-for.ts';

/** A database of flags: `look` finds those that are set. */
function openFlags() {
  const set = new Set<string>();
  const looks: string[][] = [];
  const poller = new SharedPoller<string, string>({
    everyMs: 5,
    look: async (subjects) => {
      looks.push([...subjects]);
      return subjects.map((subject) => (set.has(subject) ? subject : undefined));
    },
  });
  return { set, looks, poller };
}

const forever = { waitMs: 60_000, signal: new AbortController().signal };

describe('a shared poller', () => {
  it('asks once for all that wait, and answers those whose moment has come', async () => {
    const { set, looks, poller } = openFlags();
    const first = poller.wait('a', forever);
    const second = poller.wait('b', forever);
    await waitFor(() => looks.length > 0, { what: 'a look' });
    expect(looks[0]).toEqual(['a', 'b']);
    set.add('b');
    expect(await second).toBe('b');
    expect(poller.size).toBe(1);
    set.add('a');
    expect(await first).toBe('a');
  });

  it('gives up after the wait, and when the caller leaves', async () => {
    const { poller } = openFlags();
    const caller = new AbortController();
    const left = poller.wait('a', { waitMs: 60_000, signal: caller.signal });
    const short = poller.wait('b', { ...forever, waitMs: 20 });
    caller.abort();
    expect(await left).toBeUndefined();
    expect(await short).toBeUndefined();
    expect(poller.size).toBe(0);
    expect(await poller.wait('c', { waitMs: 60_000, signal: caller.signal })).toBeUndefined();
  });

  it('does not ask while nobody waits, and begins again', async () => {
    const { set, looks, poller } = openFlags();
    set.add('a');
    await poller.wait('a', forever);
    const asked = looks.length;
    await new Promise((resolve) => setImmediate(resolve));
    expect(looks).toHaveLength(asked);
    expect(await poller.wait('a', forever)).toBe('a');
  });

  it('tells those that wait when the question fails, and goes on for the next', async () => {
    let isBroken = true;
    const poller = new SharedPoller<string, true>({
      everyMs: 1,
      look: async () => {
        if (isBroken) throw new Error('The database is away.');
        return [true];
      },
    });
    await expect(poller.wait('a', forever)).rejects.toThrow('away');
    isBroken = false;
    expect(await poller.wait('a', forever)).toBe(true);
  });
});
