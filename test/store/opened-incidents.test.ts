// The statement that opens incidents writes what the state machine decided, though it is told only how they differ.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { openIncident } from '../../src/domain/incident.ts';
import { findOpenIncidents } from '../../src/store/incidents/incidents.ts';
import { insertIncidents } from '../../src/store/incidents/opened-incidents.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedEndpoint, seedMonitors } from '../support/seed.ts';

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

it('incidents are read as they were opened, those without an event before the first one', async () => {
  const { pool, project } = fixture;
  const openedMs = await readNow(pool);
  const { endpointId } = await seedEndpoint(fixture, 'http://127.0.0.1:9/');
  const [told, untold] = await seedMonitors(pool, project, 2);
  if (!told || !untold) throw new Error('no monitors');
  const missed = openIncident(
    { kind: 'missed_deadline', severity: 'critical', summary: 'No beat came.', deadlineMs: openedMs - 7 },
    openedMs,
  ).incident;
  const violated = openIncident(
    {
      kind: 'rule_violation',
      severity: 'warning',
      summary: 'Too large.',
      sequence: 12,
      measurement: 'size',
      rule: 'maximum',
    },
    openedMs,
  ).incident;
  const createdMs = openedMs + 3;
  const shared = { jurisdiction: 'unrestricted', openedDetail: { why: 'so' } };
  await insertIncidents(pool, {
    openedMs,
    incidents: [
      { ...untold, ...shared, incident: violated },
      {
        ...told,
        ...shared,
        incident: missed,
        delivery: {
          deliveryId: newId('dlv', createdMs),
          createdMs,
          endpointId,
          endpointProjectId: project.projectId,
          webhookId: newId('msg', createdMs),
          body: '{}',
        },
      },
    ],
  });
  const found = await findOpenIncidents(pool, [told, untold]);
  expect(found.get(untold.monitorKey)).toEqual([violated]);
  expect(found.get(told.monitorKey)).toEqual([{ ...missed, eventSequence: 1 }]);
  const { rows } = await pool.query(
    `select monitor_key, incident_id, event, sequence, state, next_attempt_at = created_at as is_due
     from deliveries`,
  );
  expect(rows).toEqual([
    {
      monitor_key: told.monitorKey,
      incident_id: missed.incidentId,
      event: 'incident.opened',
      sequence: 1,
      state: 'pending',
      is_due: true,
    },
  ]);
});
