// Senders that send each beat exactly once, the product under them, and faults. It counts what must be zero: incidents of
// jobs that live, dead jobs that are found late or never.
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { DevelopmentRun, makeStateFolder } from '../dev/development-run.ts';
import { OwnPostgres } from '../support/own-postgres.ts';
import { type SeedMonitor, type SeedProject, seedMonitors, seedProject } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';
import { type FaultResult, judge, type Opened, type Timing } from './judgement.ts';
import { SenderProcess } from './sender-process.ts';

export interface Scale {
  apis: number;
  senders: number;
  /** A beat that is lost makes a silence of two periods, which must be longer than interval and grace. */
  periodMs: number;
  intervalSeconds: number;
  graceSeconds: number;
}

/** What a fault works on. */
export interface Target {
  postgres: OwnPostgres;
  run: DevelopmentRun;
  /** The addresses of the apis. */
  apis: string[];
  /** Of the database. */
  pool: Pool;
  /** Where monitors of others are made. */
  project: SeedProject;
}

export interface Fault {
  name: string;
  /** About how long it lasts: jobs die before, in and after it. */
  aboutMs: number;
  /** Resolves when all works again. */
  run(target: Target): Promise<void>;
}

/** Of the senders that live, how many die around each fault. */
const MORTALITY = 0.06;
/** How long to wait for what is late, so that late and never are told apart. */
const GIVE_UP_MS = 90_000;

export class Experiment {
  readonly target: Target;
  readonly #scale: Scale;
  readonly #monitors: SeedMonitor[];
  readonly #senders: SenderProcess;
  readonly #dead = new Set<number>();
  readonly #close: () => Promise<void>;

  private constructor(scale: Scale, target: Target, monitors: SeedMonitor[], close: () => Promise<void>) {
    this.#scale = scale;
    this.target = target;
    this.#monitors = monitors;
    this.#close = close;
    const addresses = monitors.map(({ address }) => address);
    this.#senders = new SenderProcess({ apis: target.apis, addresses, periodMs: scale.periodMs });
  }

  /** Resolves when each monitor has had a beat. */
  static async start(scale: Scale): Promise<Experiment> {
    const postgres = await OwnPostgres.create();
    const state = await makeStateFolder();
    const run = new DevelopmentRun(state.folder, {
      args: ['--no-cluster', '--no-examples', '--replicas', String(scale.apis)],
      env: { DATABASE_URL: postgres.url, BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1' },
    });
    const { apis } = await run.ready();
    const pool = openPool({
      databaseUrl: postgres.url,
      size: 2,
      applicationName: 'chaos',
      statementTimeoutMs: 120_000,
      idleInTransactionMs: 0,
    });
    const project = await seedProject(pool);
    const { senders, intervalSeconds, graceSeconds } = scale;
    const configuration = { interval_seconds: intervalSeconds, grace_seconds: graceSeconds };
    const monitors = await seedMonitors(pool, project, senders, { configuration });
    await pool.query('analyze');
    const close = async () => {
      await pool.end();
      await run.stop();
      await state.remove();
      await postgres.remove();
    };
    const experiment = new Experiment(scale, { postgres, run, apis, pool, project }, monitors, close);
    await experiment.#firstBeats();
    return experiment;
  }

  /** Lets some jobs die around the fault, and waits until they are found and nothing false can come any more. */
  async run(fault: Fault): Promise<FaultResult> {
    const { silenceMs } = this.#timing;
    await this.#senders.report();
    const beganAt = Date.now();
    const dying = this.#choose();
    const first = dying.slice(0, Math.ceil(dying.length * 0.75));
    this.#kill(first, this.#scale.periodMs + fault.aboutMs);
    await pause(this.#scale.periodMs);
    await fault.run(this.target);
    const endedAt = Date.now();
    this.#kill(dying.slice(first.length), this.#scale.periodMs / 2);
    // Until then the last beat that was lost in the fault would have made its false incident.
    await pause(silenceMs + 3_000);
    const isFound = async () => {
      const found = new Set((await this.#incidentsSince(beganAt)).map(({ index }) => index));
      return dying.every((index) => found.has(index));
    };
    await waitFor(isFound, { timeoutMs: GIVE_UP_MS, intervalMs: 500 }).catch(() => undefined);
    const opened = await this.#incidentsSince(beganAt);
    const report = await this.#senders.report();
    const result = judge({ report, opened, dying, dead: this.#dead, endedAt }, this.#timing);
    for (const index of dying) this.#dead.add(index);
    return { fault: fault.name, apis: this.#scale.apis, ...result };
  }

  /** What the processes of the product have logged. */
  get log(): string {
    return this.target.run.stderr;
  }

  async end(): Promise<void> {
    await this.#senders.end();
    await this.#close();
  }

  get #timing(): Timing {
    return { silenceMs: (this.#scale.intervalSeconds + this.#scale.graceSeconds) * 1_000 };
  }

  async #firstBeats(): Promise<void> {
    const waiting = 'select 1 from monitor_live where project_id = $1 and deadline_ms is null limit 1';
    const { pool, project } = this.target;
    await waitFor(async () => (await pool.query(waiting, [project.projectId])).rowCount === 0, {
      what: 'each monitor has had a beat',
      timeoutMs: 300_000,
      intervalMs: 500,
    });
  }

  /** Senders that live, each with the same chance. */
  #choose(): number[] {
    const living = this.#monitors.map((_, index) => index).filter((index) => !this.#dead.has(index));
    return living
      .map((index) => ({ index, at: Math.random() }))
      .sort((a, b) => a.at - b.at)
      .slice(0, Math.ceil(living.length * MORTALITY))
      .map(({ index }) => index);
  }

  /** Ends the senders at random moments within so many milliseconds. */
  #kill(indexes: readonly number[], withinMs: number): void {
    this.#senders.die(indexes.map((index) => ({ index, inMs: Math.random() * withinMs })));
  }

  async #incidentsSince(beganAt: number): Promise<Opened[]> {
    const { rows } = await this.target.pool.query<{ monitor_key: string; opened_at: Date }>(
      'select monitor_key, opened_at from incidents where project_id = $1 and opened_at >= $2',
      [this.target.project.projectId, new Date(beganAt)],
    );
    const indexes = new Map(this.#monitors.map(({ monitorKey }, index) => [monitorKey, index]));
    return rows.map(({ monitor_key, opened_at }) => ({
      index: indexes.get(monitor_key) ?? -1,
      openedAt: opened_at.getTime(),
    }));
  }
}

/** The length of a part of the experiment, not a wait for a state. */
export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
