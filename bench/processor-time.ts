// Processor time of this process and of those that it has started: the same work takes about as much on a busy machine.
import { readdir, readFile } from 'node:fs/promises';

/** Milliseconds. */
export interface ProcessorTimes {
  own: number;
  postgres: number;
  /** Other processes of the benchmark, such as receivers. */
  others: number;
}

/** Milliseconds of a tick of the clock in /proc, on every Linux of today. */
const TICK_MS = 10;

/** What `work` takes, in each process. Without /proc only that of this process is known. */
export async function processorTimesOf(work: () => Promise<void>): Promise<ProcessorTimes> {
  const before = await readChildren();
  const ownBefore = process.cpuUsage();
  await work();
  const own = process.cpuUsage(ownBefore);
  const after = await readChildren();
  return {
    own: (own.user + own.system) / 1_000,
    postgres: after.postgres - before.postgres,
    others: after.others - before.others,
  };
}

/** That of one process so far, in milliseconds; 0 without /proc. */
export async function processorMsOf(pid: number): Promise<number> {
  return (await readStat(String(pid)))?.ms ?? 0;
}

/**
 * That of the processes of this name which this one has started, also indirectly, so far, in milliseconds; with that of their
 * children that have ended, such as connections of Postgres.
 */
export async function processorMsOfNamed(name: string): Promise<number> {
  const stats = await readAllStats();
  let sum = 0;
  for (const [pid, stat] of stats)
    if (stat.name === name && isOurs(pid, stats)) sum += stat.ms + stat.endedChildrenMs;
  return sum;
}

interface Stat {
  name: string;
  parent: number;
  ms: number;
  /** Of those whose end the process has seen. */
  endedChildrenMs: number;
}

async function readAllStats(): Promise<Map<number, Stat>> {
  const stats = new Map<number, Stat>();
  for (const entry of await readdir('/proc').catch(() => [])) {
    const stat = /^\d+$/.test(entry) ? await readStat(entry) : undefined;
    if (stat) stats.set(Number(entry), stat);
  }
  return stats;
}

async function readChildren(): Promise<Omit<ProcessorTimes, 'own'>> {
  const stats = await readAllStats();
  const times = { postgres: 0, others: 0 };
  for (const [pid, { name, ms }] of stats) {
    if (pid !== process.pid && isOurs(pid, stats)) times[name === 'postgres' ? 'postgres' : 'others'] += ms;
  }
  return times;
}

/** Undefined: the process has ended. */
async function readStat(pid: string): Promise<Stat | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name, in brackets, may have any character. Behind it: state, parent, …, ticks of user and of system,
  // the same of ended children (proc(5)).
  const [, name = '', rest = ''] = /\((.*)\) (.*)/s.exec(text) ?? [];
  const fields = rest.split(' ').map(Number);
  const [parent, user, system, ...ended] = [fields[1], fields[11], fields[12], fields[13], fields[14]];
  if (parent === undefined || user === undefined || system === undefined) return undefined;
  const endedTicks = ended.reduce((sum = 0, ticks = 0) => sum + ticks, 0) ?? 0;
  return { name, parent, ms: (user + system) * TICK_MS, endedChildrenMs: endedTicks * TICK_MS };
}

function isOurs(pid: number, stats: ReadonlyMap<number, Stat>): boolean {
  for (let one = pid; one > 0; one = stats.get(one)?.parent ?? 0) if (one === process.pid) return true;
  return false;
}
