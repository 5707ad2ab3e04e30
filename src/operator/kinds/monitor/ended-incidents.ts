// The Events about incidents. How one ended the API is asked, after the status was written. A status may be forged: what
// it lists costs a bounded number of calls.
import { isGone, isProblem } from '../../../client/api-problem.ts';
import type { RestClient } from '../../../client/rest-client.ts';
import { MAX_OPEN_INCIDENTS } from '../../../contract/crd/monitor-resource.ts';
import { Controller, type Reconcile } from '../../../kube/controller.ts';
import type { KubeLog } from '../../../kube/kube-log.ts';
import { objectKey } from '../../../kube/kube-object.ts';
import type { MonitorObject } from './monitor-object.ts';
import type { OpenIncident } from './monitor-status.ts';

type Api = Pick<RestClient, 'call'>;
type Reason = 'IncidentRecovered' | 'IncidentResolved';
type Answer = { reason: Reason; endedAt?: string | undefined } | 'of_another' | 'unknown';

const WHAT: Readonly<Record<OpenIncident['kind'], string>> = {
  missed_deadline: 'No beat came in time',
  reported_failure: 'A run failed',
  overdue_run: 'A run took too long',
  rule_violation: 'A measurement broke a rule',
};

/** An Event about the end of an incident. */
export interface IncidentEnd {
  reason: Reason;
  note: string;
}

/** The monitor, and the incidents that its status no longer lists as open. */
export interface EndedIncidents {
  object: MonitorObject;
  ref: { id: string; projectId: string };
  incidents: readonly OpenIncident[];
}

/** Asks beside the passes: however long the API takes to answer, no status waits for a worker. */
export class IncidentEnds {
  readonly #api: Api;
  readonly #record: (object: MonitorObject, end: IncidentEnd) => void;
  /** By the key of the object. What is lost with the process has no Event. */
  readonly #waiting = new Map<string, EndedIncidents>();
  readonly #controller: Controller;

  constructor(
    { api, log }: { api: Api; log: KubeLog },
    record: (object: MonitorObject, end: IncidentEnd) => void,
  ) {
    this.#api = api;
    this.#record = record;
    const reconcile: Reconcile = async (key, { signal }) => await this.#tell(key, signal);
    this.#controller = new Controller({ name: 'incident-ends', concurrency: 2, reconcile, log });
  }

  ask(ended: EndedIncidents): void {
    const key = objectKey(ended.object);
    const incidents = [...(this.#waiting.get(key)?.incidents ?? []), ...ended.incidents];
    this.#waiting.set(key, { ...ended, incidents: incidents.slice(0, MAX_OPEN_INCIDENTS) });
    this.#controller.start();
    this.#controller.enqueue(key);
  }

  async stop(graceMs: number): Promise<unknown> {
    return await this.#controller.stop(graceMs);
  }

  async #tell(key: string, signal: AbortSignal): Promise<undefined> {
    const ended = this.#waiting.get(key);
    if (ended === undefined) return;
    this.#waiting.delete(key);
    for (const end of await endsOf(this.#api, ended, signal)) this.#record(ended.object, end);
  }
}

/** Without incidents of other monitors. */
export async function endsOf(
  api: Api,
  { ref, incidents }: Pick<EndedIncidents, 'ref' | 'incidents'>,
  signal: AbortSignal,
): Promise<IncidentEnd[]> {
  const ends: IncidentEnd[] = [];
  let isAnswering = true;
  for (const incident of incidents.slice(0, MAX_OPEN_INCIDENTS)) {
    const answer: Answer = isAnswering ? await askFor(api, { ...ref, ...incident }, signal) : 'unknown';
    if (answer === 'of_another') continue;
    isAnswering = answer !== 'unknown';
    if (answer !== 'unknown')
      ends.push({ reason: answer.reason, note: describeEnd(incident, answer.endedAt) });
    else {
      const note = `${describeEnd(incident)} The API did not say how it ended.`;
      ends.push({ reason: 'IncidentResolved', note });
    }
  }
  return ends;
}

async function askFor(
  api: Api,
  { id, projectId, incidentId }: EndedIncidents['ref'] & { incidentId: string },
  signal: AbortSignal,
): Promise<Answer> {
  try {
    const { body } = await api.call(
      'getIncident',
      { params: { incidentId } },
      { project: projectId, signal },
    );
    if (body.monitorId !== id) return 'of_another';
    return body.state === 'recovered'
      ? { reason: 'IncidentRecovered', endedAt: body.recoveredAt }
      : { reason: 'IncidentResolved', endedAt: body.resolvedAt };
  } catch (error) {
    // It was resolved when its monitor was deleted.
    if (isGone(error)) return { reason: 'IncidentResolved' };
    if (isProblem(error)) return 'unknown';
    throw error;
  }
}

/** `No beat came in time (missed_deadline, critical): open since 2026-01-31T09:00:00Z, incident inc_….` */
export function describeIncident(incident: OpenIncident): string {
  return `${whatOf(incident)}: open since ${incident.openedAt}, incident ${incident.incidentId}.`;
}

/** `…: was open from 2026-01-31T09:00:00Z to 2026-01-31T09:10:00Z, incident inc_….` */
function describeEnd(incident: OpenIncident, endedAt?: string): string {
  const to = endedAt === undefined ? '' : ` to ${endedAt}`;
  return `${whatOf(incident)}: was open from ${incident.openedAt}${to}, incident ${incident.incidentId}.`;
}

/** A status that somebody has written may name a kind that does not exist. */
function whatOf({ kind, severity }: OpenIncident): string {
  return `${WHAT[kind] ?? 'An incident'} (${kind}, ${severity})`;
}
