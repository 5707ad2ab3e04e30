// A monitor with rules that lives on a database with a clock of its own, through the parts of the product: beats over HTTP,
// changes of its configuration, a sweeper that is never late, and connections that die in between.
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Proposal } from '../../src/domain/draft.ts';
import { findPlan } from '../../src/domain/plan.ts';
import type { Violation } from '../../src/domain/rules/state.ts';
import { createDraft } from '../../src/service/monitors/drafts.ts';
import { type DraftReplay, replayDraft } from '../../src/service/monitors/replay-draft.ts';
import { testBeat } from '../../src/service/monitors/test-beat.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { type PingServer, startPingServer } from '../ingest/ping-fixture.ts';
import { type ClockedFixture, openClockedFixture } from '../support/clocked-fixture.ts';
import { incidentsOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import type { PlainIncident } from '../unit/rules/reference.ts';
import type { Definitions } from '../unit/rules/reference-violations.ts';
import { type History, makeHistory } from './explain-history.ts';

export interface RuleWorld extends ClockedFixture {
  /** A beat goes to the first one. Sent again, it goes to the other. */
  servers: [PingServer, PingServer];
  /** No monitor that there is is woken any more. */
  forget(): Promise<void>;
}

export async function openRuleWorld(): Promise<RuleWorld> {
  const fixture = await openClockedFixture();
  const { clock } = fixture;
  // An armed transaction that writes a live row dies at its commit: with all that it has written.
  await fixture.pool.query(`create sequence deaths; select nextval('deaths');
    create function dies() returns trigger language plpgsql as $$ begin
      if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;
      return null; end $$;
    create constraint trigger dies after update on monitor_live
      deferrable initially deferred for each row execute function dies()`);
  const start = () => startPingServer(clock.databaseUrl);
  const servers: RuleWorld['servers'] = [await start(), await start()];
  return {
    ...fixture,
    servers,
    forget: async () => {
      await fixture.pool.query('update monitor_live set wake_ms = null where wake_ms is not null');
    },
    close: async () => {
      for (const server of servers) await server.close();
      await fixture.close();
    },
  };
}

export interface Crash {
  /** The transaction of the beat dies at its commit, and that of the sweeper too. */
  dies: boolean;
  /** The answer to the beat is lost: the sender sends it again. */
  isRepeated: boolean;
}

export const anyCrashes: fc.Arbitrary<Crash[]> = fc.array(
  fc.record({
    dies: fc.constantFrom(false, false, true),
    isRepeated: fc.constantFrom(false, false, true),
  }),
  { minLength: 1, maxLength: 8 },
);

/** The same ones over and over. */
export function crashAt(crashes: readonly Crash[], index: number): Crash {
  return crashes[index % crashes.length] as Crash;
}

/** What a beat was told, or would be told. */
export type Answer = Violation[] | 'refused';

/** Each field of a rule that a patch can take away. */
const NOTHING = Object.fromEntries(
  [
    ...['metricType', 'missingPolicy', 'transform', 'unit', 'ruleAction', 'rulePolicy'],
    ...['minimum', 'maximum', 'maximumAbsoluteDelta', 'maximumPercentageDelta', 'zeroExpectation', 'ratio'],
  ].map((field) => [field, null]),
);

export class RuleLife {
  readonly history: History;
  readonly #world: RuleWorld;
  readonly #address: string;
  readonly #monitorKey: string;
  #quiets = 0;
  /** Transactions that have died. */
  deaths = 0;

  private constructor(world: RuleWorld, history: History, record: Awaited<ReturnType<History['read']>>) {
    this.#world = world;
    this.history = history;
    this.#address = record.publishAddress;
    this.#monitorKey = record.monitorKey;
  }

  static async begin(world: RuleWorld, definitions: Definitions): Promise<RuleLife> {
    const history = await makeHistory(world, world.clock, { intervalSeconds: 86_400 });
    const life = new RuleLife(world, history, await history.read());
    await life.change(definitions);
    return life;
  }

  get nowMs(): number {
    return this.#world.clock.nowMs;
  }

  /** For all lives, until before `ms` from now: what is due at that moment is left to what comes then. */
  async pass(ms: number, { dies }: Pick<Crash, 'dies'> = { dies: false }): Promise<void> {
    const { clock, pool } = this.#world;
    const untilMs = this.nowMs + ms;
    for (;;) {
      const { rows } = await pool.query('select min(wake_ms) as next from monitor_live');
      const wakeMs: number | null = rows[0].next;
      if (wakeMs === null || wakeMs >= untilMs) break;
      if (wakeMs > this.nowMs) await clock.pass(wakeMs - this.nowMs);
      await moveClock(clock.pool, this.nowMs);
      const sweep = () => waitFor(() => drain(makeSweep(clock.pool)).then(() => true));
      await (dies ? this.#dying(sweep) : sweep());
    }
    await clock.pass(untilMs - this.nowMs);
  }

  async beat(measurements: Record<string, number>, { dies, isRepeated }: Crash): Promise<Answer> {
    const key = randomUUID();
    const send = (server: PingServer) => this.#send(server, measurements, key);
    const [first, second] = this.#world.servers;
    const told = await (dies ? this.#dying(() => send(first)) : send(first));
    if (isRepeated && !isDeepStrictEqual(await send(second), told))
      throw new Error('The beat was answered otherwise when it was sent again.');
    return told;
  }

  /** What a test beat says: the answer, and what becomes of incidents. */
  async foresee(measurements: Record<string, number>): Promise<{ answer: Answer; changed: string[] }> {
    const context = { minimumIntervalSeconds: 60, findPlan };
    const body = JSON.stringify({ measurements });
    const said = await testBeat(this.#world.clock.pool, context, this.history.name, body);
    const changed = said.transitions.map(({ incident }) => {
      const { measurement, rule, state, severity, violationCount } = incident;
      return [measurement, rule, state, severity, violationCount].join(' ');
    });
    return { answer: said.problem ? 'refused' : [...said.violations], changed: changed.sort() };
  }

  /** Of a draft with this rule, over all that has come since `sinceMs`: by its frozen window, and by a span. */
  async replay(proposal: Proposal, sinceMs: number): Promise<[DraftReplay, DraftReplay]> {
    const { pool } = this.#world.clock;
    const { name } = this.history;
    const context = { findPlan };
    const { draft } = await inTransaction(pool, (tx) => createDraft(tx, context, { name, proposal }));
    const of = { name: { monitor: name, draftId: draft.draftId }, signal: new AbortController().signal };
    const span = { sinceMs, untilMs: this.nowMs };
    return [await replayDraft(pool, context, of), await replayDraft(pool, context, { ...of, span })];
  }

  /** By a patch, as a caller would make it. Returns the rules as they are stored. */
  async change(definitions: Definitions): Promise<Definitions> {
    const { measurements: before } = (await this.history.read()).configuration;
    const gone = Object.keys(before).map((key): [string, object | null] => [key, null]);
    const stated = Object.entries(definitions).map(([key, rule]): [string, object] => [
      key,
      { ...NOTHING, ...JSON.parse(JSON.stringify(rule)) },
    ]);
    await this.history.patch({ measurements: Object.fromEntries([...gone, ...stated]) });
    return (await this.history.read()).configuration.measurements as Definitions;
  }

  /** A pause or a maintenance, in turns, begins or ends. */
  async toggleQuiet(): Promise<void> {
    const window = { startsMs: this.nowMs - 60_000, endsMs: this.nowMs + 7 * 86_400_000 };
    const turns = [
      () => this.history.act('pause'),
      () => this.history.act('resume'),
      () => this.history.act('enter_maintenance', window),
      () => this.history.act('exit_maintenance'),
    ];
    await turns[this.#quiets % turns.length]?.();
    this.#quiets += 1;
  }

  async loseStates(): Promise<void> {
    await this.#world.pool.query('update monitor_live set rule_states = null where monitor_key = $1', [
      this.#monitorKey,
    ]);
  }

  /** With their ids. */
  async incidents(): Promise<(PlainIncident & { incidentId: string })[]> {
    const rows = await incidentsOf(this.#world.pool, { monitorKey: this.#monitorKey });
    return rows.map((row) => ({
      incidentId: row.incident_id,
      measurement: row.measurement,
      rule: row.rule,
      state: row.state,
      severity: row.severity,
      openedMs: row.opened_at.getTime(),
      openSequence: row.open_sequence,
      lastSequence: row.last_sequence,
      violationCount: row.violation_count,
      recoveryCount: row.recovery_count,
    }));
  }

  async #send(server: PingServer, measurements: Record<string, number>, key: string): Promise<Answer> {
    const answer = await fetch(`${server.url}/ping/${this.#address}`, {
      method: 'POST',
      headers: {
        accept: 'application/json',
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify({ measurements }),
    });
    const body = (await answer.json()) as { violations: Violation[] };
    if (answer.status === 400) return 'refused';
    if (!answer.ok) throw new Error(`The beat was answered ${answer.status}: ${JSON.stringify(body)}`);
    return body.violations;
  }

  /** The first transaction of `work` that writes a live row dies. */
  async #dying<T>(work: () => Promise<T>): Promise<T> {
    const { pool } = this.#world;
    await pool.query(`select setval('deaths', 1, false)`);
    const done = await work();
    const { rows } = await pool.query('select is_called as died from deaths');
    await pool.query(`select setval('deaths', 1)`);
    if (rows[0].died) this.deaths += 1;
    return done;
  }
}

export function withoutId({
  incidentId: _,
  ...incident
}: PlainIncident & { incidentId: string }): PlainIncident {
  return incident;
}
