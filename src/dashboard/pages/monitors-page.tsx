// The monitors of a project, a page at a time.

import type { Monitor } from '../../contract/resources/monitor.ts';
import { call } from '../api/call.ts';
import { FaultNote } from '../parts/fault-note.tsx';
import { Heading } from '../parts/heading.tsx';
import { HealthWord } from '../parts/health.tsx';
import { useLoaded } from '../parts/loaded.ts';
import { Scroll } from '../parts/scroll.tsx';
import { duration, Time } from '../parts/times.tsx';
import { place, withQuery } from '../router.ts';
import { project } from '../session.ts';

const PAGE = 50;
const EVERY_MS = 2_500;

export function MonitorsPage() {
  const { loaded, reload } = useLoaded(
    (signal) => {
      const cursor = place.value.query.get('cursor') ?? undefined;
      return call(
        'listMonitors',
        { query: { limit: PAGE, cursor } },
        { project: project.value?.projectId, signal },
      );
    },
    { everyMs: EVERY_MS },
  );
  const { value: page, fault, awaySince } = loaded.value;
  return (
    <>
      <Heading text="Monitors" />
      {fault && <FaultNote fault={fault} since={awaySince} retry={reload} />}
      {page === undefined ? (
        !fault && <p>Loading…</p>
      ) : page.items.length === 0 ? (
        <p>
          There is no monitor. <a href="/docs/quickstart">Declare the first one</a> in YAML or by the API.
        </p>
      ) : (
        <>
          <Scroll label="Table of monitors">
            <table>
              <caption>Monitors</caption>
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Health</th>
                  <th scope="col">Last beat</th>
                  <th scope="col">Next deadline</th>
                  <th scope="col">Last duration</th>
                  <th scope="col">Labels</th>
                </tr>
              </thead>
              <tbody>
                {page.items.map((monitor) => (
                  <Row key={`${monitor.jurisdiction} ${monitor.monitorId}`} monitor={monitor} />
                ))}
              </tbody>
            </table>
          </Scroll>
          {page.nextCursor !== undefined && <a href={withQuery({ cursor: page.nextCursor })}>Next page</a>}
        </>
      )}
    </>
  );
}

function Row({ monitor }: { monitor: Monitor }) {
  const { name, labels, status } = monitor;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        <HealthWord health={status.health} />
      </td>
      <td>{status.lastBeatAt ? <Time at={status.lastBeatAt} /> : 'never'}</td>
      <td>{status.nextDeadlineAt ? <Time at={status.nextDeadlineAt} /> : '–'}</td>
      <td>{status.lastDurationSeconds === undefined ? '–' : duration(status.lastDurationSeconds)}</td>
      <td>
        {Object.entries(labels).map(([key, value]) => (
          <code key={key}>
            {key}={value}
          </code>
        ))}
      </td>
    </tr>
  );
}
