// What `npm run test:distributed` leaves out of the suites of store, ingest and sweeper, and why. What is not built stands
// in docs/adr/0012-past-one-machine.md too. A unit test holds the names to the files.

const COSTS = 'It counts pages, log or statements of one Postgres.';

const SMALL_TABLE =
  'It moves times of organizations by an expression, or refuses their change by a trigger: a reference table takes neither.';

const LOCK = 'It holds outcomes up by a lock of their endpoint, which outcomes on Citus do not take.';

const LOOKUP = 'It expects one statement of a look-up: on Citus a second one asks for shards.';

const PLACES =
  'Citus has no databases of jurisdictions: no table that it distributes has the trigger of the directory.';

const TRIGGER = 'It holds writes up by a trigger, which Citus does not have on a distributed table.';

const RETURN = 'A trigger notes when an organization returns: on Citus whoever changes the state does.';

const CLAIM = 'It reads what a statement of the pool asks for: a claim on Citus is a transaction.';

const FORMER = 'It is about a database that the version before has made, on one Postgres.';

const OWN_SERVER = 'It stops and restores a server of its own, which is one Postgres.';

/** Whole files, or tests of a file by how their titles begin, with the reason of each. */
export const NOT_ON_CITUS: Readonly<Record<string, string | Readonly<Record<string, string>>>> = {
  'test/ingest/beat-cost.test.ts': COSTS,
  'test/ingest/residence-beats.test.ts': PLACES,
  'test/ingest/rule-beats.test.ts': {
    'a connection that dies before the commit leaves neither observation nor state': TRIGGER,
    'a batch of 100 monitors with rules takes as many statements as one of 2': COSTS,
  },
  'test/ingest/rule-statements.test.ts': COSTS,
  'test/store/expanding-migrations.test.ts': FORMER,
  'test/store/migrate-from-former.test.ts': FORMER,
  'test/store/monitor-list-cost.test.ts': COSTS,
  'test/store/monitor-origins.test.ts': COSTS,
  'test/store/series-bounds.test.ts': {
    'refuses finer buckets, having read a few observations': COSTS,
    'reads the beats of a short span alone, in fine buckets': COSTS,
    'reads no observation twice': COSTS,
  },
  'test/store/series-cost.test.ts': COSTS,
  'test/store/slots-property.test.ts': PLACES,
  'test/store/status-feed-cost.test.ts': COSTS,
  'test/sweeper/deadline-cost.test.ts': COSTS,
  'test/sweeper/delivery-costs.test.ts': COSTS,
  'test/store/observation-lists.test.ts': COSTS,
  'test/sweeper/delivery-queue.test.ts': COSTS,
  'test/ingest/plain-beats.test.ts':
    'Citus has no single statement for plain beats: they take the transaction of other beats.',
  'test/ingest/monitor-directory.test.ts': {
    'many addresses are looked up in statements of 256, one for each part': LOOKUP,
    'as many addresses are loaded ahead as are kept, and no more are read': LOOKUP,
    'an address is found whose answer comes while the process stands still for longer than the patience':
      LOOKUP,
  },
  'test/ingest/tenants.test.ts': {
    'a round asks for nothing once no address of the project serves from the cache any more': LOOKUP,
  },
  'test/ingest/away.test.ts': {
    'a beat that is committed while the process stands still for longer than its patience is answered 200':
      'A beat on Citus takes two round trips: it is not committed while the process stands still.',
  },
  'test/sweeper/service-states.test.ts': {
    'a grace ends after 14 days, what it canceled is deleting 30 days later, and each has an audit line':
      SMALL_TABLE,
    'a plan that migrate makes due is again what is paid for, and a grace by hand lasts until its end':
      SMALL_TABLE,
    'a database that goes away ends the step, and is no fault of one organization after the other':
      SMALL_TABLE,
    'a payment that comes when the grace ends wins, whichever of sweeper and event is first, and many sweepers do no harm':
      SMALL_TABLE,
    'an organization whose state cannot be ended does not hold up the others': SMALL_TABLE,
    'a payment notes the return, and its end the suspension, also where the database has no triggers': RETURN,
  },
  'test/store/directory.test.ts': PLACES,
  'test/store/directory-property.test.ts': PLACES,
  'test/store/directory-restarts.test.ts': PLACES,
  'test/store/directory-triggers.test.ts': PLACES,
  'test/store/directory-refusals.test.ts': PLACES,
  'test/store/place-checks.test.ts': PLACES,
  'test/sweeper/usage.test.ts': {
    'of very many minutes count in bounded pieces, which read no more than they delete': COSTS,
  },
  'test/sweeper/residence.test.ts': PLACES,
  'test/sweeper/refused-place.test.ts': PLACES,
  'test/sweeper/rests.test.ts': {
    'a suspension that no sweeper saw leaves a full interval and grace; then a dead job is found': RETURN,
    'a run that is overdue when the rest ends alerts at once, and is counted': RETURN,
    'the database notes each return and each suspension, whoever changes the state': RETURN,
    'who looks for rests reads as many rows for a project with thousands of them as for one with a few':
      COSTS,
  },
  'test/sweeper/endpoint-reports.test.ts': PLACES,
  'test/sweeper/batch-size.test.ts': TRIGGER,
  'test/sweeper/deadline-lanes.test.ts': {
    'a lane whose batch waits holds up no other lane': TRIGGER,
    'a run fails whose lane lost its connection, and the next runs find what that lane had claimed': TRIGGER,
    'a monitor at fault in one bucket does not move its whole bucket to the end': TRIGGER,
    'batches that Postgres asks to run again open each incident once': TRIGGER,
  },
  'test/store/application-role.test.ts': {
    'the directory is copied to a place by a role that may not change tables': PLACES,
    'the role of api and sweeper in the database of a jurisdiction gets its rights there, and that of the default one none':
      PLACES,
  },
  'test/store/migrate.test.ts': {
    'names the jurisdictions whose monitors are left in the default database': PLACES,
  },
  'test/store/feed-history.test.ts': {
    'a snapshot of the volume that is put back begins a new history': OWN_SERVER,
    'a crash of the server, which may give ids again, begins a new history': OWN_SERVER,
  },
  'test/sweeper/deliveries.test.ts': {
    'an event that waits is looked at again and again, with pauses that do not grow, and is sent after the one before':
      CLAIM,
  },
  'test/sweeper/observations-of-plan.test.ts': {
    'a monitor whose rows somebody holds does not hold up the others, and the next pass takes it':
      'It limits the wait for a lock by a setting of the session, which the machines do not get.',
  },
  'test/sweeper/observation-pieces.test.ts': {
    'a small part of a table is read by index: each observation once, with two more for each monitor': COSTS,
    'of many monitors whose observations came in turn, pages are read in turn and not for each observation':
      COSTS,
  },
  'test/sweeper/sealed-values.test.ts': {
    'a pass does not wait for an endpoint that somebody holds; a later pass seals it':
      'Endpoints are whole on each machine: who locks one of them locks the table.',
    'a pass reads what is to be sealed again by the index, and not the table': COSTS,
    'what a sweeper leaves that is killed in the middle opens, and the next one completes it': TRIGGER,
  },
  'test/sweeper/waiting-events.test.ts': {
    'a claim reads no more pages when 20,000 events wait than when 4,000 do, and one that is behind them is sent':
      COSTS,
  },
  'test/sweeper/delivery-shares.test.ts': {
    "another project's alerts are sent while outcomes of one project can't be written, and that one has its share alone":
      LOCK,
    "alerts go out while the database breaks off each claim that has one project's deliveries among others":
      'It breaks off a statement of the pool: a claim on Citus is a transaction.',
  },
  'test/sweeper/dispatchers.test.ts': {
    'a delivery whose outcome cannot be written for longer than its lease is not sent again': LOCK,
  },
  'test/sweeper/dispatcher-polls.test.ts': {
    'an endpoint at which nothing may go out is asked once, and not again while the result of the poll serves':
      CLAIM,
  },
};

/** Files for `exclude` of vitest. */
export function excludedFiles(): string[] {
  return Object.keys(NOT_ON_CITUS).filter((file) => typeof NOT_ON_CITUS[file] === 'string');
}

/** Why a test is left out; undefined for one that runs. `file` is its path from the project's folder. */
export function reasonAgainst(file: string, title: string): string | undefined {
  const reasons = NOT_ON_CITUS[file];
  if (typeof reasons === 'string') return reasons;
  return Object.entries(reasons ?? {}).find(([start]) => title.startsWith(start))?.[1];
}
