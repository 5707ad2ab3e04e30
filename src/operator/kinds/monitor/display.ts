// The texts of kubectl's columns (docs/contract/kubernetes.md, "Columns"). Pure.
import type { Binding } from '../../../contract/resources/binding.ts';
import type { MonitorStatus } from '../../../contract/resources/monitor.ts';

type Cadence = MonitorStatus['cadence'];
type OpenIncident = MonitorStatus['openIncidents'][number];

const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
] as const;

/** `5m`, `1h30m`, `1d`: the two greatest units. */
export function displayDuration(seconds: number): string {
  let left = Math.max(0, Math.round(seconds));
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join('') || '0s';
}

/** `5m`, `cron 0 2 * * *`, `learned 1h`, `learning`. `cron` is known where the record was read. */
export function displayInterval(cadence: Cadence, cron: string | undefined): string | undefined {
  switch (cadence.source) {
    case 'schedule':
      // One blank between fields: a tab would break the column.
      return cron === undefined ? undefined : `cron ${cron.trim().replaceAll(/\s+/g, ' ')}`;
    case 'learning':
      return 'learning';
    case 'learned':
      return `learned ${displayDuration(cadence.intervalSeconds ?? 0)}`;
    case 'configured':
      return displayDuration(cadence.intervalSeconds ?? 0);
  }
}

const SEVERITIES = ['critical', 'warning', 'info'] as const;

/** The gravest open kind, and `+n` for more. Undefined without incidents. */
export function displayIncident(incidents: readonly OpenIncident[]): string | undefined {
  const [gravest, ...others] = incidents.toSorted(
    (a, b) =>
      SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || (a.openedAt < b.openedAt ? -1 : 1),
  );
  if (gravest === undefined) return undefined;
  return others.length === 0 ? gravest.kind : `${gravest.kind} +${others.length}`;
}

/** The alias, `default`, `inline` or `none`. */
export function displayCallback(binding: Binding): string {
  switch (binding.kind) {
    case 'named':
      return binding.alias;
    case 'inline':
      return 'inline';
    case 'disabled':
      return 'none';
    case 'organization_default':
      return 'default';
  }
}

/** What `displayCallback` stands for, where the record was not read. An alias may look like a word of ours. */
export function bindingOf(text: string | undefined): Binding {
  if (text === undefined || text === 'default') return { kind: 'organization_default' };
  if (text === 'none') return { kind: 'disabled' };
  return text === 'inline' ? { kind: 'inline', url: '' } : { kind: 'named', alias: text };
}
