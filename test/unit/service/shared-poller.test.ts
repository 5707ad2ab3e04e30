// One query at a time for many waiting calls.
import { describe, expect, it } from 'vitest';
import { SharedPoller } from '../../../src/service/calls/shared-poller.ts';
import { waitFor } from '../../support/wait-for.ts';

/** A database of flags: `poll` finds those that are set. */
function openFlags() {
  const set = new Set<string>();
  const polls: string[][] = [];
  const poller = new SharedPoller<string, string>({
    everyMs: 5,
    poll: async (subjects) => {
      polls.push([...subjects]);
      return subjects.map((subject) => (set.has(subject) ? subject : undefined));
    },
  });
  return { set, polls, poller };
}

const forever = { waitMs: 60_000, signal: new AbortController().signal };

describe('a shared poller', () => {
  it('one query serves all waiting calls and answers those with a result', async () => {
    const { set, polls, poller } = openFlags();
    const first = poller.wait('a', forever);
    const second = poller.wait('b', forever);
    await waitFor(() => polls.length > 0, { what: 'a poll' });
    expect(polls[0]).toEqual(['a', 'b']);
    set.add('b');
    expect(await second).toBe('b');
    expect(poller.size).toBe(1);
    set.add('a');
    expect(await first).toBe('a');
  });

  it('a wait ends with its time, and when the caller leaves', async () => {
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

  it('no query runs while nobody waits, and polling starts again with the next call', async () => {
    const { set, polls, poller } = openFlags();
    set.add('a');
    await poller.wait('a', forever);
    const asked = polls.length;
    await new Promise((resolve) => setImmediate(resolve));
    expect(polls).toHaveLength(asked);
    expect(await poller.wait('a', forever)).toBe('a');
  });

  it('a failed query rejects the waiting calls, and the next call is served', async () => {
    let isBroken = true;
    const poller = new SharedPoller<string, true>({
      everyMs: 1,
      poll: async () => {
        if (isBroken) throw new Error('The database is away.');
        return [true];
      },
    });
    await expect(poller.wait('a', forever)).rejects.toThrow('away');
    isBroken = false;
    expect(await poller.wait('a', forever)).toBe(true);
  });
});
