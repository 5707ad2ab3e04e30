// What is wrong now: incidents that have not ended, gravest first.

import type { Incident } from '../../contract/resources/incident.ts';
import { type CallOptions, call } from '../api/call.ts';
import { randomKey } from '../api/keys.ts';
import { useAction } from '../parts/action.tsx';
import { FaultNote } from '../parts/fault-note.tsx';
import { Heading } from '../parts/heading.tsx';
import { useLoaded } from '../parts/loaded.ts';
import { Scroll } from '../parts/scroll.tsx';
import { Time } from '../parts/times.tsx';
import { addressOf, mayManage, project } from '../session.ts';

/** Two calls each: they count for the project. */
const EVERY_MS = 4_000;
/** More are not read. */
const MOST_PAGES = 5;

export function NowPage() {
  const { loaded, reload } = useLoaded((signal) => readOpen(project.value?.projectId, signal), {
    everyMs: EVERY_MS,
  });
  const { value, fault, awaySince } = loaded.value;
  const incidents = value?.incidents;
  return (
    <>
      <Heading text="Now" />
      {fault && <FaultNote fault={fault} since={awaySince} retry={reload} />}
      {incidents === undefined ? (
        !fault && <p>Loading…</p>
      ) : incidents.length === 0 ? (
        <p>Nothing is wrong.</p>
      ) : (
        <Scroll label="Table of incidents">
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
          {value?.isCut && <p>There are more: these are the newest 1,000 of each state.</p>}
        </Scroll>
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
      <th scope="row">{monitorName}</th>
      <td>
        <a href={addressOf(`/incidents/${encodeURIComponent(incidentId)}`)}>{summary}</a>
      </td>
      <td class={`severity ${severity}`}>
        {SHAPES[severity]} {severity}
      </td>
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

interface Open {
  incidents: Incident[];
  /** There are more. */
  isCut: boolean;
}

async function readOpen(projectId: string | undefined, signal: AbortSignal): Promise<Open> {
  const read = await Promise.all(
    (['open', 'recovering'] as const).map((state) => readState(state, { project: projectId, signal })),
  );
  return {
    incidents: read.flatMap(({ incidents }) => incidents).sort(gravestFirst),
    isCut: read.some(({ isCut }) => isCut),
  };
}

async function readState(state: 'open' | 'recovering', options: CallOptions): Promise<Open> {
  const incidents: Incident[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = await call('listIncidents', { query: { state, limit: 200, cursor } }, options);
    incidents.push(...answer.items);
    cursor = answer.nextCursor;
    if (cursor === undefined) return { incidents, isCut: false };
  }
  return { incidents, isCut: true };
}

const SHAPES = { critical: '▲', warning: '△', info: '○' };
const GRAVITY = { critical: 0, warning: 1, info: 2 };

function gravestFirst(one: Incident, other: Incident): number {
  return (
    GRAVITY[one.severity] - GRAVITY[other.severity] || Date.parse(one.openedAt) - Date.parse(other.openedAt)
  );
}
