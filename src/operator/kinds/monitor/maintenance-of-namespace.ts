// The maintenance schedules of a namespace, which hold for all of its Monitors (docs/contract/kubernetes.md, "Maintenance of a
// namespace"). Pure.
import {
  MAX_MAINTENANCE_SCHEDULES,
  type MaintenanceSchedules,
  maintenanceSchedules,
} from '../../../contract/resources/maintenance-schedule.ts';
import { SCHEDULE_TIME_ZONE } from '../../../domain/defaults.ts';
import type { KubeObject } from '../../../kube/kube-object.ts';
import { ANNOTATION } from '../../resources/names.ts';
import type { MonitorObject } from './monitor-object.ts';

/** What a Monitor has of its own and of its namespace; `fault`: a sentence, and nobody knows what is meant. */
export type WantedMaintenance = { schedules: MaintenanceSchedules | undefined } | { fault: string };

type Stated = MonitorObject['spec']['maintenanceSchedules'];

/** Schedules of the Monitor come first. Undefined: neither says anything. */
export function wantedMaintenance(stated: Stated, namespace: KubeObject | undefined): WantedMaintenance {
  const own = stated?.map((schedule) => ({ ...schedule, timeZone: schedule.timeZone ?? SCHEDULE_TIME_ZONE }));
  const text = maintenanceTextIn(namespace);
  if (text === undefined) return { schedules: own };
  const shared = parse(text);
  if ('fault' in shared) return shared;
  const schedules = [...(own ?? []), ...shared.schedules];
  if (schedules.length <= MAX_MAINTENANCE_SCHEDULES) return { schedules };
  const counts = `${own?.length ?? 0} of its own and ${shared.schedules.length} of its namespace`;
  const message = `The Monitor has ${counts}: a monitor has at most ${MAX_MAINTENANCE_SCHEDULES}.`;
  return { fault: keeping(message) };
}

/** The annotation of a namespace, as it is written. */
export function maintenanceTextIn(namespace: KubeObject | undefined): string | undefined {
  return namespace?.metadata.annotations?.[ANNOTATION.maintenance];
}

function parse(text: string): { schedules: MaintenanceSchedules } | { fault: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { fault: unreadable('it is no JSON') };
  }
  const { success, data, error } = maintenanceSchedules.safeParse(value);
  if (success) return { schedules: data };
  const [issue] = error.issues;
  const path = issue?.path.join('.');
  return { fault: unreadable(`${path ? `${path}: ` : ''}${issue?.message ?? 'it is no list'}`) };
}

function unreadable(why: string): string {
  const example = '[{"cron": "0 2 * * 6", "timeZone": "Europe/Berlin", "durationSeconds": 7200}]';
  return keeping(
    `The annotation ${ANNOTATION.maintenance} of the namespace cannot be read: ${why.replace(/\.$/, '')}. State a list such as ${example}.`,
  );
}

const keeping = (message: string) =>
  `${message} Until then the monitor keeps the maintenance schedules that it has.`;
