// Prints the figures of the benchmark of the operator as rows of Markdown tables, and fails the run for a wrong count.
import type { Cost, Counts, Milliseconds, Requests } from './operator-cost.ts';
import { median, percentile } from './table.ts';

interface Memory {
  now: number;
  peak: number;
}

interface Work {
  /** All Monitors. */
  total: number;
  cost: Cost;
  requests: Requests;
  calls: Counts;
}

interface Created extends Work {
  count: number;
  passes: number;
  memory: Memory;
}

interface Steady extends Pick<Work, 'cost' | 'requests'> {
  aSecond: number[];
  sent: number;
  passes: number;
  agesSeconds: number[];
}

/** Beside those of a new Monitor: on a busy machine a pass that lost a race, or a call without an answer, is done again. */
const REPEATS = 0.1;
const READS = /^(get|list)/;

export class OperatorReport {
  readonly #faults: string[] = [];
  /** Of operators that were started with so many Monitors. */
  readonly #peaks: { total: number; mib: number }[] = [];

  /** Milliseconds until the last of so many changes was seen. */
  readonly #changes: { count: number; ms: number }[] = [];

  bareCreation(apiserverMs: number): void {
    section('the operator');
    row('the creation itself, without an operator', `${apiserverMs.toFixed(1)} ms of kube-apiserver`);
  }

  creation({ total, count, cost, requests, calls, passes, memory }: Created): void {
    const { seconds, ms } = cost;
    const { writes, events } = requests;
    section(`from ${total - count} to ${total} new Monitors, ${(count / seconds).toFixed(0)} a second`);
    const changing = only(calls, (name) => !READS.test(name));
    row('writes to Kubernetes of each', each(writes, count), '3');
    row('Events of each', (events / count).toFixed(2), '1');
    row('changing calls of /v1 of each', each(changing, count), '1');
    row('reading calls of /v1', list(only(calls, (name) => READS.test(name))));
    row('passes over each', (passes / count).toFixed(2));
    row('ms of processor of each', times(ms, count), 'kube-apiserver <= 11, operator <= 3');
    row('memory of the operator', mib(memory));
    const [written, called] = [sum(writes) / count, sum(changing) / count];
    this.#require(written >= 3 && written <= 3 + REPEATS, `A new Monitor is ${written} writes, not 3.`);
    this.#require(called >= 1 && called <= 1 + REPEATS, `A new Monitor is ${called} changing calls, not 1.`);
  }

  restart({ total, cost, requests, calls, memory }: Work & { memory: Memory }): void {
    const { seconds, ms } = cost;
    const { writes, events, reads } = requests;
    section(`a restart at ${total} Monitors without a change`);
    const changing = only(calls, (name) => !READS.test(name));
    row('writes to Kubernetes, Events', `${list(writes)}, ${events}`, '0');
    row('changing calls of /v1', list(changing), '0');
    row('reading calls of /v1', list(calls));
    row('from its start until each Monitor was looked at', `${seconds.toFixed(1)} s`);
    row('ms of processor in all', times(ms, 1));
    row('reads of Kubernetes', list(reads));
    row('memory of the operator', mib(memory));
    this.#peaks.push({ total, mib: memory.peak });
    this.#require(sum(writes) + events === 0, `A restart wrote ${list(writes)} and ${events} Events.`);
    this.#require(changing.size === 0, `A restart called ${list(changing)}.`);
  }

  rule({ total, cost, requests, calls }: Work): void {
    const { seconds, ms } = cost;
    section(`a Rule for all of ${total} Monitors`);
    row('until each has it', `${seconds.toFixed(0)} s, ${(total / seconds).toFixed(0)} a second`);
    row('writes to Kubernetes for each', each(requests.writes, total));
    row(
      'calls of /v1 for each',
      each(
        only(calls, (name) => name !== 'getStatusFeed'),
        total,
      ),
    );
    row('ms of processor for each', times(ms, total));
    const updates = calls.get('updateMonitor') ?? 0;
    this.#require(updates === total, `A Rule for ${total} Monitors changed ${updates}.`);
  }

  /** `aSecond`: status writes in each second. */
  steady({ cost, requests, aSecond, sent, passes, agesSeconds }: Steady): void {
    const { seconds, ms } = cost;
    section(
      `steady state: ${agesSeconds.length} one-minute monitors that all beat, ${(sent / seconds).toFixed(0)} beats a second`,
    );
    const writes = (requests.writes.get('APPLY monitors/status') ?? 0) / seconds;
    const most = Math.max(...aSecond);
    row('status writes a second', `${writes.toFixed(1)}, at most ${most.toFixed(0)}`, '<= 50');
    row('passes for each beat', (passes / sent).toFixed(2));
    row('ms of processor a minute', times(ms, seconds / 60));
    const ages = [0.5, 1].map((share) => percentile(agesSeconds, share).toFixed(0));
    row('age of lastBeatAt on the objects', `${ages[0]} s, at most ${ages[1]} s`);
    row('calls of Kubernetes', list(requests.all));
    // A few are about something else, such as a monitor that was late for a whole minute.
    this.#require(writes <= 51, `${writes} statuses are written in a second, not 50.`);
  }

  changes(count: number, { down, up }: { down: number[]; up: number[] }): void {
    section(`${count} changes of state at once, beside the beats`);
    for (const sorted of [down, up]) this.#changes.push({ count, ms: sorted.at(-1) ?? Number.NaN });
    for (const [name, sorted] of [['down', down] as const, ['up', up] as const]) {
      const [half, most] = [percentile(sorted, 0.5), percentile(sorted, 0.99)].map((ms) =>
        (ms / 1_000).toFixed(2),
      );
      row(`until the status says ${name}: p50, p99`, `${half} s, ${most} s`, 'p99 <= 2 s');
    }
  }

  bareStatuses(count: number, { seconds, ms }: Cost): void {
    section(`${count} status writes by eight writers, without an operator`);
    const longest = this.#changes.filter((change) => change.count === count).map((change) => change.ms);
    row('a second', (count / seconds).toFixed(0));
    row(
      'ms of processor of each',
      `kube-apiserver ${(ms.apiserver / count).toFixed(1)}, etcd ${(ms.etcd / count).toFixed(1)}`,
    );
    row('until the last of as many changes was seen / these', (median(longest) / 1_000 / seconds).toFixed(2));
  }

  beats({ failures, sent }: { failures: number; sent: number }, memory: Memory): void {
    section('after all that');
    row('beats, failed', `${sent}, ${failures}`);
    row('memory of the operator', mib(memory));
  }

  scrapes({ ms, bytes, memory }: { ms: number; bytes: number; memory: Memory }): void {
    section('an operator with metrics of each Monitor');
    row('a scrape', `${ms.toFixed(0)} ms of processor, ${(bytes / 1_048_576).toFixed(1)} MiB`);
    row('memory of the operator', mib(memory));
  }

  /** Throws if a count was wrong. */
  end(): void {
    const slopes = this.#peaks.slice(1).map(({ total, mib: peak }, place) => {
      const former = this.#peaks[place] as { total: number; mib: number };
      return ((peak - former.mib) / (total - former.total)) * 1_000;
    });
    section('growth');
    row('peak of memory after a restart, for 1,000 Monitors more', `${median(slopes).toFixed(1)} MiB`);
    if (this.#faults.length > 0) throw new Error(this.#faults.join(' '));
  }

  #require(isRight: boolean, fault: string): void {
    if (!isRight) this.#faults.push(fault);
  }
}

function section(title: string): void {
  console.log(`\n### ${title}\n\n| figure | value | goal |\n|---|---|---|`);
}

function row(name: string, value: string, goal = ''): void {
  console.log(`| ${name} | ${value} | ${goal} |`);
}

function only(counts: Counts, isWanted: (name: string) => boolean): Map<string, number> {
  return new Map([...counts].filter(([name]) => isWanted(name)));
}

function sum(counts: Counts): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

function list(counts: Counts): string {
  if (counts.size === 0) return '0';
  return [...counts].map(([name, count]) => `${count} ${name}`).join(', ');
}

function each(counts: Counts, of: number): string {
  const parts = [...counts].map(([name, count]) => `${(count / of).toFixed(2)} ${name}`);
  return `${(sum(counts) / of).toFixed(2)} (${parts.join(', ')})`;
}

function times({ apiserver, etcd, operator, api, postgres }: Milliseconds, of: number): string {
  const parts = { 'kube-apiserver': apiserver, etcd, operator, api, Postgres: postgres };
  const digits = of === 1 || operator / of > 100 ? 0 : 1;
  return Object.entries(parts)
    .map(([name, ms]) => `${name} ${(ms / of).toFixed(digits)}`)
    .join(', ');
}

function mib({ now, peak }: Memory): string {
  return `${now.toFixed(0)} MiB, at most ${peak.toFixed(0)}`;
}
