// The maintenance schedules of a namespace, which hold for all of its Monitors (docs/contract/kubernetes.md, "Maintenance of a
// namespace"). Pure.
import { parseInput } from '../../../contract/fields/field-errors.ts';
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
  const own = ownMaintenance(stated);
  const text = maintenanceTextIn(namespace);
  if (text === undefined) return { schedules: own };
  const shared = readText(text);
  if ('fault' in shared) return shared;
  const schedules = [...(own ?? []), ...shared.schedules];
  if (schedules.length <= MAX_MAINTENANCE_SCHEDULES) return { schedules };
  const counts = `${own?.length ?? 0} of its own and ${shared.schedules.length} of its namespace`;
  return { fault: `The Monitor has ${counts}: a monitor has at most ${MAX_MAINTENANCE_SCHEDULES}. ${KEEPS}` };
}

/** As the API stores them. */
export function ownMaintenance(stated: Stated): MaintenanceSchedules | undefined {
  return stated?.map((schedule) => ({ ...schedule, timeZone: schedule.timeZone ?? SCHEDULE_TIME_ZONE }));
}

/** The annotation of a namespace, as it is written. */
export function maintenanceTextIn(namespace: KubeObject | undefined): string | undefined {
  return namespace?.metadata.annotations?.[ANNOTATION.maintenance];
}

const KEEPS = 'Until then the monitor keeps the maintenance schedules that it has.';
const EXAMPLE = '[{"cron": "0 2 * * 6", "timeZone": "Europe/Berlin", "durationSeconds": 7200}]';

type Read = { schedules: MaintenanceSchedules } | { fault: string };

/** Each pass of each Monitor reads the text of its namespace: the newest texts are kept as they were read. */
const MOST_KEPT = 200;
/** More than eight schedules ever need. Longer texts are not kept either. */
const MOST_CHARACTERS = 16_384;
const kept = new Map<string, Read>();

function readText(text: string): Read {
  const known = kept.get(text);
  if (known) return known;
  const read = parse(text);
  if (text.length > MOST_CHARACTERS) return read;
  const [oldest] = kept.keys();
  if (oldest !== undefined && kept.size >= MOST_KEPT) kept.delete(oldest);
  kept.set(text, read);
  return read;
}

function parse(text: string): Read {
  if (text.length > MOST_CHARACTERS) return unreadable(`it has more than ${MOST_CHARACTERS} characters`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return unreadable('it is not JSON');
  }
  if (!Array.isArray(value)) return unreadable('it is not a list');
  const read = parseInput(maintenanceSchedules, value);
  if ('value' in read) return { schedules: read.value };
  const [{ path, message } = { path: '', message: '' }] = read.fieldErrors;
  const [index = '', field] = path.split('.');
  const entry = index === '' ? '' : `entry ${Number(index) + 1}${field === undefined ? '' : `, ${field}`}: `;
  return unreadable(`${entry}${message.replace(/\.$/, '')}`);
}

function unreadable(why: string): { fault: string } {
  const what = `The annotation ${ANNOTATION.maintenance} of the namespace cannot be read: ${why}.`;
  return { fault: `${what} State a list such as ${EXAMPLE}. ${KEEPS}` };
}
