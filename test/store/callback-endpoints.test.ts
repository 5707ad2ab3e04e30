// Rows of callback endpoints on a real Postgres: uniqueness, locks, pages.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  lockEndpoint,
  removeEndpoint,
  updateEndpoint,
  updateLastDeliveries,
} from '../../src/store/callbacks/callback-endpoints.ts';
import type { KeysetPosition } from '../../src/store/postgres/keyset.ts';
import { seedProject } from '../support/seed.ts';
import { type CallbackFixture, NOW_MS, openCallbackFixture } from './callback-fixture.ts';

let fixture: CallbackFixture;

beforeAll(async () => {
  fixture = await openCallbackFixture();
});
afterAll(async () => {
  await fixture?.close();
});

const webhook = (projectId: string, endpointId: string, alias: string) => ({
  projectId,
  endpointId,
  alias,
  kind: 'webhook' as const,
  urlBox: Buffer.from('box'),
  createdMs: NOW_MS,
});

describe('what is unique in a project', () => {
  it('an insert of an endpoint reports whether its id or its alias is taken', async () => {
    const { pool, project } = fixture;
    const { projectId } = project;
    expect(await insertEndpoint(pool, webhook(projectId, 'unique-1', 'pager'))).toBe('inserted');
    expect(await insertEndpoint(pool, webhook(projectId, 'unique-1', 'other'))).toBe('id_taken');
    expect(await insertEndpoint(pool, webhook(projectId, 'unique-2', 'pager'))).toBe('alias_taken');
  });

  it('the alias of a removed endpoint is free again, its id is not', async () => {
    const { pool, project } = fixture;
    const ref = { projectId: project.projectId, endpointId: 'gone-1' };
    await insertEndpoint(pool, webhook(ref.projectId, 'gone-1', 'gone'));
    await removeEndpoint(pool, ref, NOW_MS);
    expect(await findEndpoint(pool, ref)).toBeUndefined();
    expect(await insertEndpoint(pool, webhook(ref.projectId, 'gone-1', 'new-name'))).toBe('id_taken');
    expect(await insertEndpoint(pool, webhook(ref.projectId, 'gone-2', 'gone'))).toBe('inserted');
  });

  it("two projects may have an endpoint with the same id and alias, and neither sees the other's", async () => {
    const { pool, project } = fixture;
    const other = await seedProject(pool);
    await insertEndpoint(pool, webhook(project.projectId, 'apart', 'apart'));
    expect(await insertEndpoint(pool, webhook(other.projectId, 'apart', 'apart'))).toBe('inserted');
    expect(await findEndpoint(pool, { projectId: other.projectId, endpointId: 'unique-1' })).toBeUndefined();
  });

  it('of two concurrent updates that take the same alias one fails', async () => {
    const { pool, project, inTx } = fixture;
    for (const id of ['race-1', 'race-2']) await insertEndpoint(pool, webhook(project.projectId, id, id));
    const rename = (endpointId: string) =>
      inTx(async (tx) => {
        const endpoint = await lockEndpoint(tx, { projectId: project.projectId, endpointId });
        if (!endpoint) throw new Error('no endpoint');
        const result = await updateEndpoint(tx, endpoint, { ...endpoint, alias: 'the-one' });
        if (result === 'alias_taken') throw new Error(result);
        return result;
      });
    const results = await Promise.allSettled([rename('race-1'), rename('race-2')]);
    expect(results.map((result) => result.status).toSorted()).toEqual(['fulfilled', 'rejected']);
    const failed = results.find((result) => result.status === 'rejected');
    expect(failed?.reason).toEqual(new Error('alias_taken'));
  });
});

describe('pages', () => {
  it('pages of endpoints with the same creation time have no gap and no repeat', async () => {
    const { pool } = fixture;
    const { projectId } = await seedProject(pool);
    for (let n = 0; n < 7; n += 1) await insertEndpoint(pool, webhook(projectId, `page-${n}`, `page-${n}`));
    // Finer than a millisecond, as the column's default writes it.
    const { rows: later } = await pool.query<{ at: string }>(
      "select (created_at + interval '7 microseconds')::text as at from callback_endpoints where endpoint_id = 'page-3'",
    );
    await pool.query("update callback_endpoints set created_at = $1 where endpoint_id = 'page-3'", [
      later[0]?.at,
    ]);
    const seen: string[] = [];
    let after: KeysetPosition | undefined;
    do {
      const rows = await listEndpoints(pool, projectId, { limit: 2, after });
      seen.push(...rows.map(({ item }) => item.endpointId));
      after = rows.at(-1)?.position;
    } while (after);
    expect(seen).toEqual(['page-3', 'page-6', 'page-5', 'page-4', 'page-2', 'page-1', 'page-0']);
  });
});

describe('the last delivery', () => {
  it('an older delivery does not replace the last delivery of an endpoint', async () => {
    const { pool, project, makeEndpoint } = fixture;
    const ref = { projectId: project.projectId, endpointId: await makeEndpoint('last') };
    const atMs = (second: number) => NOW_MS + second * 1000;
    await updateLastDeliveries(pool, [
      { ...ref, last: { state: 'failing', atMs: atMs(2), statusCode: 500 } },
    ]);
    await updateLastDeliveries(pool, [
      { ...ref, last: { state: 'delivered', atMs: atMs(1), statusCode: 200 } },
    ]);
    expect((await findEndpoint(pool, ref))?.lastDelivery).toEqual({
      state: 'failing',
      atMs: atMs(2),
      statusCode: 500,
    });
  });
});
