// Many who ask for the same work share its runs.
import { expect, it } from 'vitest';
import { SharedRun } from '../../../src/service/calls/shared-run.ts';

/** `runs`: those that have begun. */
function open() {
  const runs: PromiseWithResolvers<void>[] = [];
  const shared = new SharedRun(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
  return { runs, shared };
}

it('all who ask while one runs get the next one, which begins after it', async () => {
  const { runs, shared } = open();
  const first = shared.ask();
  const others = [shared.ask(), shared.ask(), shared.ask()];
  expect(runs).toHaveLength(1);
  runs[0]?.resolve();
  await first;
  expect(runs).toHaveLength(2);
  const last = shared.ask();
  runs[1]?.resolve();
  await Promise.all(others);
  expect(runs).toHaveLength(3);
  runs[2]?.resolve();
  await last;
});

it('a run that fails does so for those who shared it, and not for the next ones', async () => {
  const { runs, shared } = open();
  const first = expect(shared.ask()).rejects.toThrow('away');
  const second = shared.ask();
  runs[0]?.reject(new Error('away'));
  await first;
  runs[1]?.resolve();
  await second;
  const third = shared.ask();
  runs[2]?.resolve();
  await third;
  expect(runs).toHaveLength(3);
});
