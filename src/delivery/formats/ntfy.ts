// What people read on their phones: a stored event as a message of ntfy, published as JSON (docs.ntfy.sh/publish,
// "Publish as JSON"). Pure.
import type { DeliveryEvent } from '../../domain/callback.ts';
import type { IncidentRecord } from '../../domain/incident-record.ts';
import { toTime } from '../../domain/timestamp.ts';

/** What is read of an event in the standard format. A test has neither incident nor monitor. */
interface StoredEvent {
  type: DeliveryEvent;
  timestamp: string;
  data: {
    projectId: string;
    projectName?: string;
    endpointId?: string;
    incident?: Pick<IncidentRecord, 'severity' | 'summary' | 'acknowledgedBy'>;
    monitor?: { name: string };
  };
}

/** A word for the title, and the emoji before it. */
const EVENTS: Readonly<Record<DeliveryEvent, readonly [word: string, tag: string]>> = {
  'incident.opened': ['Incident', 'rotating_light'],
  'incident.escalated': ['Escalated', 'rotating_light'],
  'incident.reopened': ['Again', 'rotating_light'],
  'incident.acknowledged': ['Acknowledged', 'eyes'],
  'incident.recovered': ['Recovered', 'white_check_mark'],
  'incident.resolved': ['Resolved', 'white_check_mark'],
  'callback.test': ['Test', 'bell'],
};

/** ntfy's scale is 1 to 5; 3 is the default, and 5 may break through the silence of a phone. */
const DEFAULT_PRIORITY = 3;
const PRIORITIES = { info: 3, warning: 4, critical: 5 } as const;
const ALARMS: readonly DeliveryEvent[] = ['incident.opened', 'incident.escalated', 'incident.reopened'];

/**
 * ntfy takes a message of 4,096 bytes, and 8,192 of JSON: a text of quotes alone doubles there, so less is used. The title
 * and everything else need less than 2 KiB.
 */
const MAX_MESSAGE_BYTES = 3_072;
const MAX_TITLE_BYTES = 512;

/** A message of an older event says when it was: a phone shows when the message came, and a late attempt rings like a new one. */
const OLD_MS = 300_000;

/** The body of the request. `event` is the text that is stored with the delivery, `nowMs` the moment of the attempt. */
export function ntfyMessage(topic: string, event: string, nowMs: number): string {
  const { type, timestamp, data } = JSON.parse(event) as StoredEvent;
  const [word, tag] = EVENTS[type];
  const subject = data.monitor?.name ?? 'callback endpoint';
  return JSON.stringify({
    topic,
    title: cut(`${word}: ${subject}`, MAX_TITLE_BYTES),
    message: cut([...agesOf(timestamp, nowMs), ...linesOf(type, data)].join('\n'), MAX_MESSAGE_BYTES),
    priority: priorityOf(type, data),
    tags: [tag],
  });
}

function agesOf(timestamp: string, nowMs: number): string[] {
  const atMs = Date.parse(timestamp);
  return nowMs - atMs > OLD_MS ? [`Of ${toTime(atMs).slice(0, 16).replace('T', ' ')} UTC`] : [];
}

function linesOf(type: DeliveryEvent, { incident, projectName, projectId, endpointId }: StoredEvent['data']) {
  if (!incident)
    return [`Alerts of the callback endpoint ${endpointId} arrive here.`, `Project ${projectId}`];
  const by = type === 'incident.acknowledged' && incident.acknowledgedBy?.display;
  return [incident.summary, ...(by ? [`Acknowledged by ${by}`] : []), `Project ${projectName}`];
}

function priorityOf(type: DeliveryEvent, { incident }: StoredEvent['data']): number {
  return incident && ALARMS.includes(type) ? PRIORITIES[incident.severity] : DEFAULT_PRIORITY;
}

/** By whole characters. */
function cut(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= maxBytes) return text;
  const end = '…';
  const kept = bytes.subarray(0, maxBytes - Buffer.byteLength(end));
  return new TextDecoder().decode(kept, { stream: true }) + end;
}
