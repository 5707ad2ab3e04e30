// What is wrong now: incidents that have not ended, gravest first.

import type { Incident } from '../../contract/resources/incident.ts';
import { call } from '../api/call.ts';
import { randomKey } from '../api/keys.ts';
import { useAction } from '../parts/action.tsx';
import { FaultNote } from '../parts/fault-note.tsx';
import { useLoaded } from '../parts/loaded.ts';
import { Time } from '../parts/times.tsx';
import { addressOf, mayManage, project } from '../session.ts';

const EVERY_MS = 2_000;

export function NowPage() {
  const { loaded, reload } = useLoaded((signal) => readOpen(project.value?.projectId, signal), {
    everyMs: EVERY_MS,
  });
  const { value: incidents, fault, awaySince } = loaded.value;
  return (
    <>
      <h1>Now</h1>
      {fault && <FaultNote fault={fault} since={awaySince} retry={reload} />}
      {incidents === undefined ? (
        !fault && <p>Loading…</p>
      ) : incidents.length === 0 ? (
        <p>Nothing is wrong.</p>
      ) : (
        <div class="scroll">
          <table>
            <caption>Incidents</caption>
            <thead>
              <tr>
                <th scope="col">Monitor</th>
                <th scope="col">Incident</th>
                <th scope="col">Severity</th>
                <th scope="col">Since</th>
                <th scope="col">State</th>
                <th scope="col">
                  <span class="hidden">Action</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {incidents.map((incident) => (
                <Row key={incident.incidentId} incident={incident} reload={reload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Row({ incident, reload }: { incident: Incident; reload: () => void }) {
  const {
    incidentId,
    monitorId,
    monitorName = monitorId,
    summary,
    severity,
    openedAt,
    acknowledgedAt,
    state,
  } = incident;
  const { run, fault, isRunning } = useAction(async () => {
    await call(
      'acknowledgeIncident',
      { params: { incidentId }, body: {}, idempotencyKey: randomKey() },
      { project: project.value?.projectId },
    );
    reload();
  });
  return (
    <tr>
      <th scope="row">
        <a href={addressOf(`/monitors/${encodeURIComponent(monitorId)}`)}>{monitorName}</a>
      </th>
      <td>
        <a href={addressOf(`/incidents/${encodeURIComponent(incidentId)}`)}>{summary}</a>
      </td>
      <td class={`severity ${severity}`}>{severity === 'critical' ? '▲ critical' : '△ warning'}</td>
      <td>
        <Time at={openedAt} />
      </td>
      <td>{acknowledgedAt === undefined ? state : `${state}, acknowledged`}</td>
      <td>
        {mayManage.value && acknowledgedAt === undefined && (
          <button type="button" onClick={() => run()} disabled={isRunning}>
            Acknowledge
          </button>
        )}
        {fault && <FaultNote fault={fault} />}
      </td>
    </tr>
  );
}

async function readOpen(projectId: string | undefined, signal: AbortSignal): Promise<Incident[]> {
  const states = ['open', 'recovering'] as const;
  const pages = await Promise.all(
    states.map((state) =>
      call('listIncidents', { query: { state, limit: 200 } }, { project: projectId, signal }),
    ),
  );
  return pages.flatMap(({ items }) => items).sort(gravestFirst);
}

const GRAVITY = { critical: 0, warning: 1, info: 2 };

function gravestFirst(one: Incident, other: Incident): number {
  return (
    GRAVITY[one.severity] - GRAVITY[other.severity] || Date.parse(one.openedAt) - Date.parse(other.openedAt)
  );
}
