// `npm run bench`: runs every benchmark behind the README's figures, or the named ones: `npm run bench -- deadlines
// deliveries`. `--short`, for CI: the quick benchmarks, with fewer and shorter pairs. `--soak`: the soak takes half an hour.
import { measureAlerts } from './alerts.ts';
import { measureBeatCost } from './beat-cost.ts';
import { measureClaims } from './claims.ts';
import { measureCreates } from './creates.ts';
import { measureDeadlines } from './deadlines.ts';
import { measureDeadlinesBesideBeats } from './deadlines-beside-beats.ts';
import { measureDeliveries } from './deliveries.ts';
import { type Environment, startEnvironment, VoidMeasurement } from './environment.ts';
import { measureExport } from './export.ts';
import { measureHealthchecks } from './healthchecks.ts';
import { measureHostileSenders } from './hostile-senders.ts';
import { measureIdlePoll } from './idle-poll.ts';
import { measureLatency } from './latency.ts';
import { measureLists } from './lists.ts';
import { measureMillion } from './million.ts';
import { measureNeighbours } from './neighbours.ts';
import { measureOperator } from './operator.ts';
import { measureOverload } from './overload.ts';
import { measurePages } from './pages.ts';
import { measurePingThroughput } from './ping-throughput.ts';
import { measureReplay } from './replay.ts';
import { measureResidence } from './residence.ts';
import { measureRuleBeats } from './rule-beats.ts';
import { measureRules } from './rules.ts';
import { measureSlowCommits } from './slow-commits.ts';
import { measureSoak } from './soak.ts';

// The log of the product's parts shows their errors.
process.env.TEST_LOG_LEVEL ??= 'error';

interface Extent {
  pairs: number;
  seconds: number;
  /** Of the operator. */
  monitors?: number;
}

interface Benchmark {
  measure: (environment: Environment, extent: Extent) => Promise<void>;
  full: Extent;
  /** Without it `--short` leaves the benchmark out. */
  short?: Extent;
}

const soakSeconds = process.argv.includes('--soak') ? 1_800 : 120;
const USUAL = { pairs: 5, seconds: 4 };
const BRIEF = { pairs: 2, seconds: 2 };

/** Each starts on a new database. */
const benchmarks: Record<string, Benchmark> = {
  ping: { measure: measurePingThroughput, full: USUAL, short: BRIEF },
  'beat-cost': { measure: measureBeatCost, full: USUAL, short: BRIEF },
  healthchecks: { measure: measureHealthchecks, full: USUAL },
  latency: { measure: measureLatency, full: { pairs: 5, seconds: 8 }, short: BRIEF },
  'slow-commits': { measure: measureSlowCommits, full: USUAL },
  overload: { measure: measureOverload, full: USUAL, short: BRIEF },
  hostile: { measure: measureHostileSenders, full: { pairs: 5, seconds: 10 } },
  million: { measure: measureMillion, full: USUAL },
  residence: { measure: measureResidence, full: USUAL },
  soak: { measure: measureSoak, full: { pairs: 1, seconds: soakSeconds } },
  deadlines: { measure: measureDeadlines, full: USUAL, short: BRIEF },
  'deadlines-beside-beats': { measure: measureDeadlinesBesideBeats, full: USUAL },
  'idle-poll': { measure: measureIdlePoll, full: USUAL },
  deliveries: { measure: measureDeliveries, full: USUAL, short: BRIEF },
  claims: { measure: measureClaims, full: USUAL },
  alerts: { measure: measureAlerts, full: { pairs: 5, seconds: 5 } },
  neighbours: { measure: measureNeighbours, full: { pairs: 2, seconds: 20 } },
  creates: { measure: measureCreates, full: USUAL, short: BRIEF },
  pages: { measure: measurePages, full: USUAL },
  lists: { measure: measureLists, full: USUAL },
  export: { measure: measureExport, full: USUAL },
  rules: { measure: measureRules, full: USUAL, short: BRIEF },
  replay: { measure: measureReplay, full: USUAL },
  operator: {
    measure: measureOperator,
    full: { pairs: 3, seconds: 180, monitors: 10_000 },
    short: { pairs: 1, seconds: 20, monitors: 200 },
  },
  'rule-beats': { measure: measureRuleBeats, full: USUAL },
};

/** `--monitors=1000`: other sizes of the benchmark of the operator. */
const monitors = process.argv.map((one) => /^--monitors=(\d+)$/.exec(one)?.[1]).find(Boolean);
const isShort = process.argv.includes('--short');
const named = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const isLeftOut = (name: string) => isShort && benchmarks[name]?.short === undefined;
const all = Object.keys(benchmarks);
if (named.length === 0 && isShort) console.log(`Left out by --short: ${all.filter(isLeftOut).join(', ')}.`);
for (const name of named.length > 0 ? named : all.filter((one) => !isLeftOut(one))) {
  const benchmark = benchmarks[name];
  if (!benchmark) throw new Error(`There is no benchmark ${name}. Name some of ${all.join(', ')}.`);
  await run(name, benchmark);
}

async function run(name: string, { measure, full, short = BRIEF }: Benchmark): Promise<void> {
  const environment = await startEnvironment();
  try {
    const extent = isShort ? short : full;
    await measure(environment, monitors === undefined ? extent : { ...extent, monitors: Number(monitors) });
  } catch (error) {
    if (!(error instanceof VoidMeasurement)) throw error;
    console.log(
      `\n### ${name}\n\nVoid: ${error.message} Run it again while the machine has nothing else to do.`,
    );
  } finally {
    await environment.close();
  }
}
