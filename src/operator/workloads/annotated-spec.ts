// The Monitor that a CronJob asks for by its annotations, or that a label of its namespace asks for. Pure.
import { PUBLISHED_LIMITS } from '../../contract/resources/monitor.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import { ANNOTATION, MONITOR_CRON_JOBS_LABEL } from '../resources/names.ts';
import type { CronJobObject } from './batch-objects.ts';

type Spec = MonitorObject['spec'];
/** The fields that the annotations decide. */
export const ANNOTATED_FIELDS = ['workloadRef', 'graceSeconds', 'callback', 'deletionPolicy'] as const;
export type AnnotatedSpec = Pick<Spec, (typeof ANNOTATED_FIELDS)[number]>;

/** Whether the CronJob is to have a Monitor: by its own annotation, else by the label of its namespace. */
export function isAnnotated({ metadata }: CronJobObject, namespace: KubeObject | undefined): boolean {
  const own = metadata.annotations?.[ANNOTATION.monitor];
  if (own === 'true') return true;
  if (own !== undefined && own !== '') return false;
  return namespace?.metadata.labels?.[MONITOR_CRON_JOBS_LABEL] === 'true';
}

const { minimumIntervalSeconds: LEAST_SECONDS } = PUBLISHED_LIMITS;
const YEAR_SECONDS = 31_536_000;
const POLICIES = ['Archive', 'Delete', 'Orphan'] as const;
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** `faults`: sentences about values that are not taken; the default counts in their place. */
export function annotatedSpec({ metadata }: CronJobObject): { spec: AnnotatedSpec; faults: string[] } {
  const faults: string[] = [];
  const readValue = <T>(annotation: string, read: (text: string) => T | undefined, wanted: string) => {
    const text = metadata.annotations?.[annotation];
    if (text === undefined) return undefined;
    const value = read(text.trim());
    if (value === undefined)
      faults.push(
        `The annotation ${annotation} is ${JSON.stringify(text.slice(0, 64))}, so its default counts: set it to ${wanted}.`,
      );
    return value;
  };
  const own = metadata.annotations?.[ANNOTATION.monitor];
  if (own !== undefined && own !== 'true' && own !== 'false')
    faults.push(
      `The annotation ${ANNOTATION.monitor} is ${JSON.stringify(own.slice(0, 64))}: set it to "true" or "false".`,
    );
  const graceSeconds = readValue(
    ANNOTATION.graceSeconds,
    (text) => {
      const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
      return seconds >= LEAST_SECONDS && seconds <= YEAR_SECONDS ? seconds : undefined;
    },
    `whole seconds from ${LEAST_SECONDS} to ${YEAR_SECONDS}`,
  );
  const callback = readValue(
    ANNOTATION.callback,
    (text) => (NAME.test(text) ? text : undefined),
    'the name of a Callback of this namespace',
  );
  const deletionPolicy = readValue(
    ANNOTATION.deletionPolicy,
    (text) => POLICIES.find((policy) => policy === text),
    POLICIES.join(', '),
  );
  const spec: AnnotatedSpec = {
    workloadRef: { apiVersion: 'batch/v1', kind: 'CronJob', name: metadata.name },
    ...(graceSeconds === undefined ? {} : { graceSeconds }),
    ...(callback === undefined ? {} : { callback: { kind: 'named', callbackRef: { name: callback } } }),
    deletionPolicy: deletionPolicy ?? 'Archive',
  };
  return { spec, faults };
}
