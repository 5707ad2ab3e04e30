// Loaded into a process of the product before its own code (`node --import`): counts the calls of all functions, and
// answers each message of the test with the functions called since the last message.
import { Session } from 'node:inspector/promises';
import type { CalledFunction } from './coverage.ts';

const SOURCES = new URL('../../src/', import.meta.url).href;

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

process.on('message', async () => {
  process.send?.(await takeCalled());
});
// The test has ended without ending this process.
process.on('disconnect', () => process.exit());

/** Taking the coverage resets all counts. */
async function takeCalled(): Promise<CalledFunction[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => url.startsWith(SOURCES))
    .flatMap(({ url, functions }) => {
      const file = url.slice(SOURCES.length);
      return functions.flatMap(({ functionName: name, ranges: [range] }) => {
        // A function that begins at 0 is the module itself: it runs when it is loaded.
        if (!range || range.count === 0 || range.startOffset === 0) return [];
        return [{ file, name, start: range.startOffset }];
      });
    });
}
