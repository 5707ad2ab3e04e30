// The causes of all monitors as the API takes them: each once, with the monitors that it concerns. Pure.
import { MAX_CAUSE_MONITORS, MAX_CAUSES } from '../../../contract/resources/operator-causes.ts';
import type { NamedCause } from '../../../domain/operator-cause.ts';

export interface ConcernedMonitor {
  projectId: string;
  monitorId: string;
}

export interface Concern {
  monitor: ConcernedMonitor;
  cause: NamedCause;
}

export interface GroupedCause extends NamedCause {
  monitors: ConcernedMonitor[];
}

/** The causes that explain others come first. */
const ORDER: readonly NamedCause['cause'][] = [
  'namespace_terminating',
  'node_not_ready',
  'quota_exceeded',
  'image_cannot_be_pulled',
];

/**
 * In an order that follows from what is in it alone. Where they are too many, those that concern the most monitors are told
 * of: the alerts of the others go out as if nothing were known.
 */
export function allCauses(concerns: Iterable<Concern>): GroupedCause[] {
  const groups = new Map<string, GroupedCause>();
  const named = new Set<string>();
  // Two objects may claim one monitor.
  for (const { monitor, cause } of [...concerns].sort(compare)) {
    const key = monitorKey(monitor);
    if (named.has(key)) continue;
    named.add(key);
    const place = `${cause.cause} ${cause.object}`;
    const group = groups.get(place) ?? { cause: cause.cause, object: cause.object, monitors: [] };
    group.monitors.push({ projectId: monitor.projectId, monitorId: monitor.monitorId });
    groups.set(place, group);
  }
  const all = [...groups.values()];
  if (all.length <= MAX_CAUSES && named.size <= MAX_CAUSE_MONITORS) return all;
  return within(all);
}

function within(all: readonly GroupedCause[]): GroupedCause[] {
  const greatest = all.toSorted((a, b) => b.monitors.length - a.monitors.length).slice(0, MAX_CAUSES);
  let left = MAX_CAUSE_MONITORS;
  const kept = new Map<GroupedCause, GroupedCause>();
  for (const group of greatest) {
    const monitors = group.monitors.slice(0, left);
    left -= monitors.length;
    if (monitors.length > 0) kept.set(group, { ...group, monitors });
  }
  return all.flatMap((group) => kept.get(group) ?? []);
}

const monitorKey = ({ projectId, monitorId }: ConcernedMonitor) => `${projectId.toLowerCase()} ${monitorId}`;

function compare(a: Concern, b: Concern): number {
  const order = ORDER.indexOf(a.cause.cause) - ORDER.indexOf(b.cause.cause);
  return (
    order || byText(a.cause.object, b.cause.object) || byText(monitorKey(a.monitor), monitorKey(b.monitor))
  );
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
