// What `npm run test:distributed` leaves out of the suites of store, ingest and sweeper, and why. What is not built stands
// in docs/adr/0012-past-one-machine.md too. A unit test holds the names to the files.

const COSTS = 'It counts pages, log or statements of one Postgres.';

/** Whole files, or tests of a file by their titles, with the reason of each. */
export const NOT_ON_CITUS: Readonly<Record<string, string | Readonly<Record<string, string>>>> = {
  'test/ingest/beat-cost.test.ts': COSTS,
  'test/store/monitor-list-cost.test.ts': COSTS,
  'test/store/series-cost.test.ts': COSTS,
  'test/store/status-feed-cost.test.ts': COSTS,
  'test/sweeper/deadline-cost.test.ts': COSTS,
  'test/sweeper/delivery-costs.test.ts': COSTS,
  'test/sweeper/delivery-queue.test.ts': COSTS,
};

/** Files for `exclude` of vitest. */
export function excludedFiles(): string[] {
  return Object.keys(NOT_ON_CITUS).filter((file) => typeof NOT_ON_CITUS[file] === 'string');
}

/** Why a test is left out; undefined for one that runs. `file` is its path from the project's folder. */
export function reasonAgainst(file: string, title: string): string | undefined {
  const reasons = NOT_ON_CITUS[file];
  return typeof reasons === 'string' ? reasons : reasons?.[title];
}
