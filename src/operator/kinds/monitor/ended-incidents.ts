// Asks the API how the incidents ended that a status lists as open and the API does not. A status may be forged: what it
// lists costs a bounded number of calls, and no answer keeps the next status from being written.
import { isGone, isProblem } from '../../../client/api-problem.ts';
import type { RestClient } from '../../../client/rest-client.ts';
import { MAX_OPEN_INCIDENTS } from '../../../contract/crd/monitor-resource.ts';
import { describeIncident, type OpenIncident } from './monitor-status.ts';
import type { MonitorPass } from './monitor-work.ts';

type Api = Pick<RestClient, 'call'>;
type Asking = Pick<MonitorPass, 'desired' | 'signal'>;
type Reason = 'IncidentRecovered' | 'IncidentResolved';

/** An Event about the end of an incident. */
export interface IncidentEnd {
  reason: Reason;
  note: string;
}

/** Without incidents of other monitors. */
export async function endsOf(
  api: Api,
  pass: Asking,
  incidents: readonly OpenIncident[],
): Promise<IncidentEnd[]> {
  const ends: IncidentEnd[] = [];
  let isAnswering = true;
  for (const incident of incidents.slice(0, MAX_OPEN_INCIDENTS)) {
    const note = describeIncident(incident);
    const end = isAnswering ? await endOf(api, pass, incident) : 'unknown';
    if (end === 'unknown') {
      isAnswering = false;
      ends.push({ reason: 'IncidentResolved', note: `${note} The API did not say how it ended.` });
    } else if (end !== 'of_another') ends.push({ reason: end, note });
  }
  return ends;
}

async function endOf(
  api: Api,
  { desired, signal }: Asking,
  { incidentId }: OpenIncident,
): Promise<Reason | 'of_another' | 'unknown'> {
  const project = desired?.projectId;
  try {
    const { body } = await api.call('getIncident', { params: { incidentId } }, { project, signal });
    if (body.monitorId !== desired?.id) return 'of_another';
    return body.state === 'recovered' ? 'IncidentRecovered' : 'IncidentResolved';
  } catch (error) {
    // It was resolved when its monitor was deleted.
    if (isGone(error)) return 'IncidentResolved';
    if (isProblem(error)) return 'unknown';
    throw error;
  }
}
