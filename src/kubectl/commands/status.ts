// `kubectl beat status`: the Monitors, what is wrong first. It reads the objects alone: the operator writes a change of health
// into them within two seconds.
import type { Command } from '../command.ts';
import { conditionOf, type MonitorObject } from '../objects.ts';
import { ALL_NAMESPACES, isGiven } from '../option.ts';
import { formatAge, formatTable, formatTime } from '../table.ts';

export interface StatusItem {
  namespace: string;
  name: string;
  monitorId?: string;
  health: string;
  lifecycle?: string;
  lastBeatAt?: string;
  nextDeadlineAt?: string;
  /** Why the health is what it is: the message of `Healthy`. */
  because?: string;
  /** The condition `Ready`: whether it can receive beats and alert. */
  ready: { status: string; reason?: string; message?: string };
  openIncidents: { incidentId: string; kind: string; state: string; severity: string; openedAt: string }[];
}

export const STATUS: Command = {
  name: 'status',
  operands: [],
  summary: 'the Monitors, what is wrong first',
  details: 'Exits 1 when a Monitor is down, 0 when none is, and above 1 when that could not be found out.',
  options: [ALL_NAMESPACES],
  async run({ cluster, values }) {
    const isEverywhere = isGiven(values, 'all-namespaces');
    const items = toStatusItems(await cluster.listMonitors(isEverywhere));
    const where = isEverywhere ? 'any namespace' : `the namespace ${cluster.namespace}`;
    const text =
      items.length === 0 ? `No Monitors in ${where}.` : describeStatus(items, Date.now(), isEverywhere);
    return { json: { items }, text, exitCode: items.some(({ health }) => health === 'down') ? 1 : 0 };
  },
};

/** The gravest first. What is not in the list, such as the health of an object that no operator has seen, is before `up`. */
const ORDER = [
  'down',
  'late',
  'recovering',
  'unknown',
  '',
  'waiting',
  'maintenance',
  'paused',
  'up',
  'archived',
];

/** The items, what is wrong first, then by namespace and name. */
export function toStatusItems(monitors: readonly MonitorObject[]): StatusItem[] {
  const items = monitors.map(toStatusItem);
  const place = (item: StatusItem): string => `${item.namespace}/${item.name}`;
  return items.sort((a, b) => rankOf(a) - rankOf(b) || (place(a) < place(b) ? -1 : 1));
}

/** Down before all; then what has an open incident, or cannot alert; then by health. */
function rankOf(item: StatusItem): number {
  const byHealth = ORDER.indexOf(item.health);
  const rank = byHealth < 0 ? ORDER.indexOf('') : byHealth;
  if (rank === 0) return 0;
  return isWrong(item) ? rank : rank + ORDER.length;
}

function isWrong({ health, ready, openIncidents }: StatusItem): boolean {
  const isGrave = openIncidents.some(({ severity }) => severity !== 'info');
  return ['down', 'late', 'recovering', 'unknown'].includes(health) || ready.status === 'False' || isGrave;
}

function toStatusItem(monitor: MonitorObject): StatusItem {
  const { metadata, status } = monitor;
  const { status: readiness = 'Unknown', reason, message } = conditionOf(monitor, 'Ready') ?? {};
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    monitorId: status?.monitorId,
    health: status?.health ?? 'unknown',
    lifecycle: status?.lifecycle,
    lastBeatAt: status?.lastBeatAt,
    nextDeadlineAt: status?.nextDeadlineAt,
    because: conditionOf(monitor, 'Healthy')?.message,
    ready: { status: readiness, reason, message },
    openIncidents: (status?.openIncidents ?? []).map(({ incidentId, kind, state, severity, openedAt }) => {
      return { incidentId, kind, state, severity, openedAt };
    }),
  };
}

/** A table and a line of counts. Only of what is wrong it says why: the columns tell the rest. */
export function describeStatus(items: readonly StatusItem[], nowMs: number, withNamespace: boolean): string {
  const head = [
    ...(withNamespace ? ['NAMESPACE'] : []),
    'NAME',
    'HEALTH',
    'LAST BEAT',
    'NEXT DEADLINE',
    'WHY',
  ];
  const rows = items.map((item) => [
    ...(withNamespace ? [item.namespace] : []),
    item.name,
    item.health,
    formatAge(item.lastBeatAt, nowMs),
    item.nextDeadlineAt === undefined ? '' : formatTime(item.nextDeadlineAt),
    whyOf(item),
  ]);
  return `${formatTable([head, ...rows])}\n\n${countsOf(items)}`;
}

function whyOf(item: StatusItem): string {
  if (!isWrong(item)) return '';
  const { because, ready } = item;
  const notReady = ready.status === 'False' ? `Not ready, ${ready.reason}: ${ready.message}` : undefined;
  return [because, notReady === `Not ready, ${ready.reason}: ${because}` ? undefined : notReady]
    .filter((text) => text !== undefined)
    .join(' ');
}

function countsOf(items: readonly StatusItem[]): string {
  const counts = new Map<string, number>();
  for (const { health } of items) counts.set(health, (counts.get(health) ?? 0) + 1);
  const ordered = [...counts].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const noun = items.length === 1 ? 'Monitor' : 'Monitors';
  return `${items.length} ${noun}: ${ordered.map(([health, count]) => `${count} ${health}`).join(', ')}.`;
}
