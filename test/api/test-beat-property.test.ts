// For any monitor and any beat, what the test beat says is what the live beat then does (docs/contract/beats.md).
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const HOUR_MS = 3_600_000;

const configuration = fc.record(
  {
    intervalSeconds: fc.constantFrom(60, 3600),
    awaitFirstBeat: fc.boolean(),
    maxRuntimeSeconds: fc.constantFrom(1, 600),
    recoveryBeats: fc.integer({ min: 1, max: 3 }),
  },
  { requiredKeys: [] },
);

const KINDS = ['success', 'start', 'fail', 'log'];
const beat = fc.record(
  {
    status: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom<unknown>(...KINDS) },
      fc.constantFrom('ok', 1, null),
    ),
    exitStatus: fc.constantFrom<unknown>(0, 1, 255, 256, -1, 1.5, '1'),
    runId: fc.constantFrom('a', 'b', '-', ''),
    message: fc.constantFrom<unknown>('done', '', 'a\0b', 'x'.repeat(1024), 'x'.repeat(1025), 7),
    observedAt: fc.constantFrom('2026-01-31T08:00:00Z', '2026-02-31T08:00:00Z', 'noon'),
    measurements: fc.oneof(
      fc.dictionary(
        fc.constantFrom('rows', 'bytes', 'Rows', '1'),
        fc.constantFrom<unknown>(1, -2.5, '1', null),
      ),
      fc.constant(Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`m${index}`, index]))),
    ),
    other: fc.constant(true),
  },
  { requiredKeys: [] },
);
const text = fc.oneof(
  { weight: 8, arbitrary: beat.map((body) => JSON.stringify(body)) },
  fc.constantFrom('', ' ', '{', '[]', 'null', '"text"', '{"status":"fail","status":"success"}'),
);

const world = fc.record({
  configuration,
  before: fc.array(fc.constantFrom('', '/fail', '/start', '/log', '/3'), { maxLength: 4 }),
  state: fc.constantFrom(
    'active',
    'active',
    'active',
    'paused',
    'archived',
    'maintenance',
    'missed',
    'spent',
  ),
});

it('a test beat says what the live beat then does', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(world, text, async (given, body) => {
      const { monitorId, address } = await arrange(given);
      const json = { 'content-type': 'application/json', accept: 'application/json' };
      const said = await api.read.expectSuccess('testBeat', {
        params: { monitorId },
        rawBody: body,
        headers: { 'content-type': 'application/json' },
      });
      const before = await incidentsOf(monitorId);
      const response = await fetch(address, { method: 'POST', headers: json, body });
      const answer = (await response.json()) as LiveAnswer;
      const { accepted, violations, incidentChanges, fieldErrors } = said.body;
      expect({ accepted, incidentChanges, violations }).toEqual({
        accepted: response.status === 200,
        incidentChanges: difference(before, await incidentsOf(monitorId)),
        violations: answer.violations ?? [],
      });
      if (accepted) expect(fieldErrors).toEqual([]);
      else if (answer.fieldErrors) expect(fieldErrors).toEqual(answer.fieldErrors);
      else {
        const [{ code, message, path } = { code: '', message: '', path: '' }] = fieldErrors;
        expect([`service.${code}`, path]).toEqual([answer.code, 'body']);
        expect(answer.detail?.startsWith(message)).toBe(true);
      }
    }),
    { numRuns: 120 },
  );
});

interface LiveAnswer {
  violations?: unknown[];
  code?: string;
  detail?: string;
  fieldErrors?: unknown[];
}

type World = typeof world extends fc.Arbitrary<infer Value> ? Value : never;

/** A monitor in that state, with some beats behind it. */
async function arrange({ configuration: fields, before, state }: World) {
  const made = await api.manage.expectSuccess('createMonitor', {
    body: { name: `m-${randomUUID()}`, ...fields },
  });
  const { monitorId, publishUrl = '' } = made.body;
  const address = `${api.url}${new URL(publishUrl).pathname}`;
  for (const suffix of before) await fetch(`${address}${suffix}`, { method: 'POST' });
  const at = (ms: number) => new Date(Date.now() + ms).toISOString();
  const window = { startsAt: at(-HOUR_MS), endsAt: at(HOUR_MS) };
  if (state === 'paused') await act(monitorId, 'pause');
  if (state === 'archived') await act(monitorId, 'archive');
  if (state === 'maintenance') await act(monitorId, 'enter_maintenance', window);
  if (state === 'missed') await miss(monitorId);
  if (state === 'spent') {
    await api.pool.query(
      `update monitor_live set tokens = 0, tokens_ms = $2
       where monitor_key = (select monitor_key from monitors where monitor_id = $1)`,
      [monitorId, Date.now() + HOUR_MS],
    );
  }
  return { monitorId, address };
}

async function act(monitorId: string, action: string, maintenance?: object): Promise<void> {
  const params = { monitorId };
  const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params });
  await api.manage.expectSuccess('changeMonitorLifecycle', {
    params,
    ifMatch,
    body: { action, maintenance },
  });
}

/** As a sweeper leaves a monitor whose deadline was missed. */
async function miss(monitorId: string): Promise<void> {
  await api.pool.query(
    `with live as (
       update monitor_live l set deadline_ms = null, open_incidents = open_incidents + 1
       from monitors m where m.monitor_id = $1 and m.monitor_key = l.monitor_key
       returning l.project_id, l.monitor_key)
     insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
       opened_at, summary)
     select project_id, $2, monitor_key, $1, 'unrestricted', 'missed_deadline', 'open', 'critical',
       clock_timestamp(), 'No beat came.'
     from live`,
    [monitorId, `inc_${randomUUID().replaceAll('-', '')}`],
  );
}

interface Row {
  incident_id: string;
  kind: string;
  state: string;
  severity: string;
}

async function incidentsOf(monitorId: string): Promise<Row[]> {
  const { rows } = await api.pool.query<Row>(
    'select incident_id, kind, state, severity from incidents where monitor_id = $1 order by opened_at, incident_id',
    [monitorId],
  );
  return rows;
}

function difference(before: readonly Row[], after: readonly Row[]) {
  return after.flatMap(({ incident_id: id, kind, state, severity }) => {
    const old = before.find((row) => row.incident_id === id)?.state;
    if (old === state) return [];
    if (state === 'open') return [{ kind, change: 'open', severity }];
    return state === 'recovered' ? [{ kind, change: 'recover', severity }] : [];
  });
}
