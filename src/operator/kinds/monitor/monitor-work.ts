// One pass over a Monitor, with the types of its desired state and its external resource.
import type { Pass, Work } from '../../pass/kind.ts';
import type { DesiredMonitor } from './desired-monitor.ts';
import type { ExternalMonitor } from './external-monitor.ts';
import type { MonitorObject } from './monitor-object.ts';

export type MonitorPass = Pass<MonitorObject, DesiredMonitor, ExternalMonitor>;
export type MonitorWork = Work<MonitorObject, DesiredMonitor, ExternalMonitor>;
