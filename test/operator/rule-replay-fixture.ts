// Shared by the tests of `rollout: Replay`: Monitors with beats of the last hours, and what the API's own replay says.
import type { RuleObject } from '../../src/operator/kinds/rule/rule-object.ts';
import { insertBeats } from '../support/past-beats.ts';
import { waitFor } from '../support/wait-for.ts';
import type { OperatorFixture } from './operator-fixture.ts';

const MINUTE_MS = 60_000;

/** Waits until the Monitor has its monitor, and gives it a success a minute with these rows, two hours ago. */
export async function withRows(
  { monitorBecomes, apiFixture }: OperatorFixture,
  name: string,
  rows: readonly number[],
): Promise<string> {
  const { status } = await monitorBecomes(name, 'Synced', 'True');
  const monitorId = status?.monitorId ?? '';
  const found = await apiFixture.pool.query(
    'select project_id as "projectId", monitor_key as "monitorKey" from monitors where monitor_id = $1',
    [monitorId],
  );
  const startMs = Date.now() - 120 * MINUTE_MS;
  const beats = rows.map((count, index) => ({
    atMs: startMs + index * MINUTE_MS,
    measurements: { rows: count },
  }));
  await insertBeats(apiFixture.pool, found.rows[0], beats);
  return monitorId;
}

/** The numbers of the API's own replay of the definition of a Rule, over the window that the Rule states. */
export async function replayByApi(
  { api }: OperatorFixture,
  monitorId: string,
  { spec, status }: RuleObject,
): Promise<object> {
  const params = { monitorId };
  const proposal = { measurementKey: spec.measurementKey, definition: spec.definition };
  const { body: draft } = await api.expectSuccess('createDraft', { params, body: { proposal } as never });
  const { since, until } = status?.replay ?? {};
  const { body } = await api.expectSuccess('replayDraft', {
    params,
    body: { draftId: draft.id, since, until },
  });
  await api.expectSuccess('cancelDraft', { params, body: { draftId: draft.id } });
  return {
    observationCount: body.window.observationCount,
    currentIncidents: body.current.incidents.length,
    proposedIncidents: body.proposed.incidents.length,
    added: body.difference.added.length,
    removed: body.difference.removed.length,
    refusedCount: body.proposed.refusedCount,
  };
}

/** Resolves with the Rule once its replay of this generation, and of this request, is finished. */
export function replayFinishes(
  { rule }: OperatorFixture,
  name: string,
  { generation = 1, request }: { generation?: number; request?: string } = {},
): Promise<RuleObject> {
  return waitFor(
    async () => {
      const found = await rule(name);
      const replay = found.status?.replay;
      const isRight = replay?.generation === generation && replay.request === request;
      return isRight && replay.finishedAt !== undefined ? found : undefined;
    },
    { what: `the replay of ${name} is finished` },
  );
}

/** The statuses of all drafts of the database, and how many there are of each monitor at most. */
export async function draftsOf({ apiFixture: { pool } }: OperatorFixture): Promise<{ status: string }[]> {
  return (await pool.query('select status, monitor_key from drafts order by created_at')).rows;
}
