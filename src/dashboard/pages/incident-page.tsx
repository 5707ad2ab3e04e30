// One incident: what it says of itself.
import { call } from '../api/call.ts';
import { FaultNote } from '../parts/fault-note.tsx';
import { Heading } from '../parts/heading.tsx';
import { useLoaded } from '../parts/loaded.ts';
import { Time } from '../parts/times.tsx';
import { project } from '../session.ts';

const EVERY_MS = 2_000;

export function IncidentPage({ incidentId }: { incidentId: string }) {
  const { loaded, reload } = useLoaded(
    (signal) =>
      call('getIncident', { params: { incidentId } }, { project: project.value?.projectId, signal }),
    { everyMs: EVERY_MS },
  );
  const { value: incident, fault, awaySince } = loaded.value;
  return (
    <>
      <Heading text={incident?.summary ?? 'Incident'} />
      {fault && <FaultNote fault={fault} since={awaySince} retry={reload} />}
      {incident && (
        <dl>
          <dt>State</dt>
          <dd>{incident.state}</dd>
          <dt>Severity</dt>
          <dd>{incident.severity}</dd>
          <dt>Opened</dt>
          <dd>
            <Time at={incident.openedAt} />
          </dd>
          <dt>Monitor</dt>
          <dd>{incident.monitorName ?? incident.monitorId}</dd>
        </dl>
      )}
    </>
  );
}
