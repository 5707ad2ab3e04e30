// Slots of a plan over two databases: whatever dies, stands still or comes late, the organization never has more than its plan
// allows, and in the end the default database knows what the other one has.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findPlan } from '../../src/domain/plan.ts';
import type { ServiceContext } from '../../src/service/calls/context.ts';
import type { Homes } from '../../src/service/calls/homes.ts';
import { withSlots } from '../../src/service/calls/reserve-slots.ts';
import { reportSlots } from '../../src/store/directory/reservations.ts';
import { freeMonitorSlots, takeMonitorSlot } from '../../src/store/monitors/monitors.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { copyAll, type DirectoryFixture, openDirectoryFixture } from '../support/directory-fixture.ts';
import { type Fate, mortal } from '../support/mortal-database.ts';
import { type SeedProject, seedProject } from '../support/seed.ts';

/** Of a database that is not away. */
const reachability = {
  isAway: () => false,
  suspect: () => undefined,
  orAway: (read: Promise<unknown>) => read,
};

/** The default database and the place: neither is away. */
function homesOf(...pools: [Pool, Pool]): Homes {
  return pools.map((pool) => ({ db: pool, pool, reachability })) as unknown as Homes;
}

const LIMIT = 2;
const plan = { ...findPlan('free'), activeMonitors: LIMIT };

let fixture: DirectoryFixture;
let project: SeedProject;
let source: Pool;
let place: Pool;

beforeAll(async () => {
  fixture = await openDirectoryFixture();
  project = await seedProject(fixture.source);
  await copyAll(fixture.source, fixture.place);
  const open = (url: string) => openPool({ databaseUrl: url, size: 10, applicationName: 'calls' });
  source = open(fixture.sourceUrl);
  place = open(fixture.placeUrl);
});
afterAll(async () => {
  await Promise.all([source?.end(), place?.end()]);
  await fixture?.close();
});

type Death = Pick<Fate, 'statements' | 'isAnswerLost'>;
type Step =
  | { do: 'create' | 'report'; fate: Death }
  | { do: 'lateCreate' | 'lateReport'; rests: number }
  | { do: 'resume' | 'createInDefault' | 'deleteInDefault' | 'delete' | 'age' };

const LIVES: Death = { statements: undefined, isAnswerLost: false };
const fate: fc.Arbitrary<Death> = fc.record({
  statements: fc.option(fc.integer({ min: 1, max: 14 }), { nil: undefined }),
  isAnswerLost: fc.boolean(),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom('create' as const, 'report' as const), fate }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('lateCreate' as const, 'lateReport' as const),
      rests: fc.integer({ min: 1, max: 6 }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'resume' as const,
        'createInDefault' as const,
        'deleteInDefault' as const,
        'delete' as const,
        'age' as const,
        'age' as const,
      ),
    }),
  },
);

/** The place is again as it was when it last noted what it had told. */
const TOLD_AND_NOT_NOTED: Step[] = [
  { do: 'createInDefault' },
  ...[1, 2].map((): Step => ({ do: 'create', fate: LIVES })),
  { do: 'delete' },
  { do: 'lateReport', rests: 5 },
  ...[1, 2].map((): Step => ({ do: 'create', fate: LIVES })),
];

const countIn = async (db: Pool) => {
  const { rows } = await db.query(
    'select active_monitors as here, monitors_elsewhere as elsewhere from organizations',
  );
  return rows[0] as { here: number; elsewhere: number };
};

class Run {
  #late: { resume: () => void; ended: Promise<unknown> }[] = [];

  async take(next: Step): Promise<void> {
    const { organizationId } = project;
    switch (next.do) {
      case 'create':
        await this.#create({ ...next.fate });
        break;
      case 'report':
        await this.#report({ ...next.fate });
        break;
      case 'lateCreate':
        await this.#stall(next.rests, (late) => this.#create(late));
        break;
      case 'lateReport':
        await this.#stall(next.rests, (late) => this.#report(late));
        break;
      case 'resume':
        await this.resume();
        break;
      case 'createInDefault':
        await takeMonitorSlot(source, organizationId, LIMIT);
        break;
      case 'deleteInDefault':
        await freeMonitorSlots(source, organizationId, 1);
        break;
      case 'delete':
        await freeMonitorSlots(place, organizationId, 1);
        break;
      case 'age':
        await source.query(`update slot_reservations set reserved_at = reserved_at - interval '1 hour'`);
    }
    const [inDefault, inPlace] = [await countIn(source), await countIn(place)];
    expect(inDefault.here + inPlace.here).toBeLessThanOrEqual(LIMIT);
  }

  async resume(): Promise<void> {
    for (const { resume, ended } of this.#late.splice(0)) {
      resume();
      await ended;
    }
  }

  /** As a call makes a monitor in the place. */
  async #create(of: Fate): Promise<void> {
    const pool = mortal(place, of);
    const counting = mortal(source, of);
    const databases = { default: counting, places: [{ jurisdiction: 'eu', pool, reachability }] };
    const context = { databases, findPlan: () => plan } as unknown as ServiceContext;
    const call = {
      context,
      caller: project,
      db: pool,
      homes: homesOf(counting, pool),
    };
    await withSlots(call, { monitors: 1, endpoints: 0 }, (use) =>
      inTransaction(pool, async (tx) => {
        await takeMonitorSlot(tx, project.organizationId, LIMIT);
        await use(tx);
      }),
    ).catch(() => undefined);
  }

  async #report(of: Fate): Promise<void> {
    const eu = { jurisdiction: 'eu' as const, pool: mortal(place, of) };
    await reportSlots(mortal(source, of), eu).catch(() => undefined);
  }

  /** Stands still where it holds nothing, after some statements. */
  async #stall(rests: number, work: (late: Fate) => Promise<unknown>): Promise<void> {
    const { promise: isResumed, resolve: resume } = Promise.withResolvers<void>();
    const { promise: isStalled, resolve: stall } = Promise.withResolvers<void>();
    let left = rests;
    const ended = work({
      atRest: async () => {
        left -= 1;
        if (left !== 0) return;
        stall();
        await isResumed;
      },
    });
    await Promise.race([isStalled, ended]);
    this.#late.push({ resume, ended });
  }
}

it('no organization has more monitors than its plan allows, and all are counted in the end', async () => {
  const runs = Number(process.env.BEATKEEPER_TEST_RUNS ?? 60);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await source.query('delete from slot_reservations');
      await source.query('delete from place_slots');
      await source.query('update organizations set active_monitors = 0, monitors_elsewhere = 0');
      await place.query('update organizations set active_monitors = 0, monitors_told = null');
      const run = new Run();
      try {
        for (const next of steps) await run.take(next);
      } finally {
        await run.resume();
      }
      await source.query(`update slot_reservations set reserved_at = reserved_at - interval '1 hour'`);
      await reportSlots(source, { jurisdiction: 'eu', pool: place });
      const [inDefault, inPlace] = [await countIn(source), await countIn(place)];
      expect(inDefault.elsewhere).toBe(inPlace.here);
      expect(inDefault.here + inPlace.here).toBeLessThanOrEqual(LIMIT);
    }),
    { numRuns: runs, examples: [[TOLD_AND_NOT_NOTED]] },
  );
});

it('a call that comes after its reservation was given up makes nothing', async () => {
  await source.query('update organizations set active_monitors = 0, monitors_elsewhere = 0');
  await place.query('update organizations set active_monitors = 0, monitors_told = null');
  const eu = { jurisdiction: 'eu' as const, pool: place, reachability };
  const databases = { default: source, places: [eu] };
  const context = { databases, findPlan: () => plan } as unknown as ServiceContext;
  const call = {
    context,
    caller: project,
    db: place,
    homes: homesOf(source, place),
  };
  const late = withSlots(call, { monitors: 1, endpoints: 0 }, async (use) => {
    await source.query(`update slot_reservations set reserved_at = reserved_at - interval '1 hour'`);
    await reportSlots(source, eu);
    expect(await countIn(source)).toMatchObject({ elsewhere: 0 });
    await inTransaction(place, async (tx) => {
      await takeMonitorSlot(tx, project.organizationId, LIMIT);
      await use(tx);
    });
  });
  await expect(late).rejects.toThrow('took too long');
  expect(await countIn(place)).toMatchObject({ here: 0 });
});
