// `kubectl beat maintenance`: sets or removes `spec.maintenance` of the Monitor.
import type { Command, Result } from '../command.ts';
import { readDurationSeconds } from '../duration.ts';
import { isGiven, textOf } from '../option.ts';
import { Refusal } from '../refusal.ts';
import { formatTime } from '../table.ts';

/** That of the API, and of the CRD. */
const MAX_SECONDS = 30 * 86_400;

export const MAINTENANCE: Command = {
  name: 'maintenance',
  operands: ['<monitor>'],
  summary: 'a window in which missed deadlines open no incident',
  details: 'Sets spec.maintenance of the Monitor: a window that begins now, of at most 30 days.',
  options: [
    { name: 'for', value: 'duration', text: 'how long, such as 30m, 2h or 1d' },
    { name: 'reason', value: 'text', text: 'why, for people' },
    { name: 'end', text: 'ends the window of spec.maintenance now' },
  ],
  async run({ cluster, operands: [name = ''], values }) {
    const window = readWindow(
      { duration: textOf(values, 'for'), reason: textOf(values, 'reason'), isEnd: isGiven(values, 'end') },
      Date.now(),
    );
    const monitor = await cluster.readMonitor(name);
    if (window === null && monitor.spec.maintenance === undefined) {
      throw new Refusal(
        `The Monitor ${name} has no spec.maintenance to end: a window that runs all the same comes from a schedule, the namespace or the API (\`kubectl beat explain ${name}\`).`,
      );
    }
    await cluster.patchMonitor(monitor, { maintenance: window });
    return describeMaintenance({ namespace: cluster.namespace, name, window });
  },
};

interface Window {
  startsAt: string;
  endsAt: string;
  /** null: a reason of an earlier window goes. */
  reason: string | null;
}

interface WindowOptions {
  duration: string | undefined;
  reason: string | undefined;
  isEnd: boolean;
}

/** The new value of `spec.maintenance`; null ends it. Throws a Refusal. */
export function readWindow({ duration, reason, isEnd }: WindowOptions, nowMs: number): Window | null {
  if (isEnd && (duration !== undefined || reason !== undefined)) {
    throw new Refusal('--end ends a window, --for and --reason begin one: state either.');
  }
  if (isEnd) return null;
  if (duration === undefined) throw new Refusal('State how long: --for 2h, or --end to end a window.');
  const seconds = readDurationSeconds('for', duration);
  if (seconds > MAX_SECONDS)
    throw new Refusal(`--for ${duration} is too long: a window has at most 30 days.`);
  const timeOf = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;
  return { startsAt: timeOf(nowMs), endsAt: timeOf(nowMs + seconds * 1_000), reason: reason ?? null };
}

export interface MaintenanceChange {
  namespace: string;
  name: string;
  window: Window | null;
}

export function describeMaintenance({ namespace, name, window }: MaintenanceChange): Result {
  const head = `monitor.beatkeeper.dev/${name}`;
  if (window === null)
    return { json: { namespace, name, maintenance: null }, text: `${head} out of maintenance` };
  const { reason, ...times } = window;
  const json = { namespace, name, maintenance: { ...times, ...(reason === null ? {} : { reason }) } };
  return { json, text: `${head} in maintenance until ${formatTime(window.endsAt)}` };
}
