// The operator with very many Monitors, on a real API server: what a new one costs, a restart without a change, a Rule for all
// of them, the steady state, how soon a change is in the status, memory. Writes and calls are counted, and wrong ones fail
// the run; times and processor time are figures.
import { setTimeout as delay } from 'node:timers/promises';
import { MONITORS } from '../src/operator/kinds/monitor/monitor-object.ts';
import { RULES, type RuleObject } from '../src/operator/kinds/rule/rule-object.ts';
import type { Environment } from './environment.ts';
import { since } from './metrics-text.ts';
import { changesAmong, measureBeats } from './operator-beats.ts';
import { writeBareStatuses } from './operator-changes.ts';
import { type Counts, costOf, requestsSince } from './operator-cost.ts';
import {
  NAMESPACE,
  type OperatorProcess,
  type OperatorProduct,
  startOperatorProduct,
} from './operator-product.ts';
import { OperatorReport } from './operator-report.ts';

const CREATORS = 8;
const SCRAPES = 10;
const SPEC = {
  intervalSeconds: 60,
  graceSeconds: 600,
  awaitFirstBeat: true,
  callback: { kind: 'disabled' },
  deletionPolicy: 'Archive',
} as const;

export interface OperatorExtent {
  /** Rounds of changes of state. */
  pairs: number;
  /** Of the steady state. */
  seconds: number;
  monitors?: number;
}

export async function measureOperator(environment: Environment, extent: OperatorExtent): Promise<void> {
  const { monitors = 200 } = extent;
  const product = await startOperatorProduct(environment);
  const bench = new ManyMonitors(product);
  try {
    // What a program does at first takes longer.
    const warming = Math.max(20, Math.round(monitors / 50));
    await bench.measureBareCreation(warming);
    let operator = await product.startOperator();
    await bench.waitForStatuses(operator, warming);
    for (const share of [4, 2, 1]) {
      await bench.measureCreation(operator, Math.round(monitors / share));
      await operator.close();
      operator = await bench.measureRestart();
    }
    await bench.measureRule(operator);
    await measureBeats(product, operator, { ...extent, report: bench.report });
    await operator.close();
    await bench.measureBareStatuses();
    await bench.measureScrapes();
  } finally {
    await product.close();
  }
  bench.report.end();
}

class ManyMonitors {
  readonly report = new OperatorReport();
  readonly #product: OperatorProduct;
  #created = 0;

  constructor(product: OperatorProduct) {
    this.#product = product;
  }

  /** Without an operator: what the API server takes for the creation itself. */
  async measureBareCreation(count: number): Promise<void> {
    const { ms } = await costOf(this.#product, undefined, () => this.#create(count));
    this.report.bareCreation(ms.apiserver / count);
  }

  /** Creates up to `total`, while the operator works. */
  async measureCreation(operator: OperatorProcess, total: number): Promise<void> {
    const count = total - this.#created;
    const [before, callsBefore] = [await this.#product.requests(), await operator.calls()];
    const { statusWrites, passes: passesBefore } = await operator.progress();
    const cost = await costOf(this.#product, operator, async () => {
      await this.#create(count);
      await this.waitForStatuses(operator, statusWrites + count);
    });
    // Events are written beside the passes.
    const hasEvents = async () => (await requestsSince(this.#product, before)).events >= count;
    await this.#product.until('as many Events', hasEvents, { timeoutMs: 600_000, intervalMs: 1_000 });
    const requests = await requestsSince(this.#product, before);
    const calls = since(callsBefore, await operator.calls());
    const passes = (await operator.progress()).passes - passesBefore;
    this.report.creation({ total, count, cost, requests, calls, passes, memory: await operator.memory() });
  }

  async measureRestart(): Promise<OperatorProcess> {
    const total = this.#created;
    const before = await this.#product.requests();
    let operator: OperatorProcess | undefined;
    const cost = await costOf(this.#product, undefined, async () => {
      operator = await this.#product.startOperator();
      await this.#waitForPasses(operator, 200);
    });
    if (operator === undefined) throw new Error('No operator was started.');
    cost.ms.operator = await operator.processorMs();
    const memory = await operator.memory();
    await this.#waitForSecrets(before);
    const requests = await requestsSince(this.#product, before);
    this.report.restart({ total, cost, requests, calls: await operator.calls(), memory });
    return operator;
  }

  async measureRule(operator: OperatorProcess): Promise<void> {
    const { kube } = this.#product;
    const total = this.#created;
    const [before, callsBefore] = [await this.#product.requests(), await operator.calls()];
    const metadata = { name: 'all', namespace: NAMESPACE };
    const spec = { selector: {}, measurementKey: 'rows', definition: { minimum: 1 } };
    const cost = await costOf(this.#product, operator, async () => {
      await kube.create(RULES, { metadata, spec: spec as RuleObject['spec'] });
      const isWhole = async () => (await kube.get(RULES, metadata)).status?.monitors?.applied === total;
      const timeoutMs = 600_000 + total * 100;
      await this.#product.until('each Monitor has the Rule', isWhole, { timeoutMs, intervalMs: 500 });
    });
    const requests = await requestsSince(this.#product, before);
    this.report.rule({ total, cost, requests, calls: since(callsBefore, await operator.calls()) });
  }

  /** What limits many changes at once: the API server, without an operator. */
  async measureBareStatuses(): Promise<void> {
    const size = Math.max(...changesAmong(this.#created));
    const cost = await costOf(this.#product, undefined, () => writeBareStatuses(this.#product, size));
    this.report.bareStatuses(size, cost);
  }

  /** A scrape lists the series of each Monitor. */
  async measureScrapes(): Promise<void> {
    const operator = await this.#product.startOperator({ metricsOfMonitors: true });
    await this.#waitForPasses(operator, 5_000);
    const beforeMs = await operator.processorMs();
    let bytes = 0;
    for (let scrape = 0; scrape < SCRAPES; scrape += 1) {
      bytes = (await operator.scrape()).length;
      await delay(200);
    }
    const ms = ((await operator.processorMs()) - beforeMs) / SCRAPES;
    this.report.scrapes({ ms, bytes, memory: await operator.memory() });
  }

  async waitForStatuses(operator: OperatorProcess, count: number): Promise<void> {
    const areWritten = async () => (await operator.progress()).statusWrites >= count;
    const timeoutMs = 600_000 + count * 200;
    await this.#product.until('each Monitor has its status', areWritten, { timeoutMs, intervalMs: 200 });
  }

  async #waitForPasses(operator: OperatorProcess, intervalMs: number): Promise<void> {
    const isInStep = async () => {
      const { passes, waiting } = await operator.progress();
      return passes >= this.#created && waiting === 0;
    };
    await this.#product.until('each Monitor was looked at', isInStep, { timeoutMs: 600_000, intervalMs });
  }

  /** The first pass over a Monitor reads its Secret. */
  async #waitForSecrets(before: Counts): Promise<void> {
    const areRead = async () => {
      const { reads } = await requestsSince(this.#product, before);
      return (reads.get('GET secrets') ?? 0) >= this.#created;
    };
    const limits = { timeoutMs: 600_000, intervalMs: 1_000 };
    await this.#product.until('each Secret was looked at', areRead, limits);
  }

  async #create(count: number): Promise<void> {
    const end = this.#created + count;
    const createRest = async () => {
      while (this.#created < end) {
        const place = this.#created++;
        const labels = { team: `team-${place % 20}` };
        const metadata = { name: `m-${place}`, namespace: NAMESPACE, labels };
        await this.#product.kube.create(MONITORS, { metadata, spec: SPEC });
      }
    };
    await Promise.all(Array.from({ length: CREATORS }, createRest));
  }
}
