// Values that are sealed with a key that is to be retired, and the passes that seal them again.
import { sealUrl, secretPlace } from '../../src/service/callbacks/endpoint-seal.ts';
import type { EndpointRef } from '../../src/store/callbacks/callback-endpoints.ts';
import { placeOf, SecretBox } from '../../src/store/postgres/secret-box.ts';
import type { JobDeps } from '../../src/sweeper/upkeep/job.ts';
import { createSealedValuesSweep } from '../../src/sweeper/upkeep/sweep-sealed-values.ts';
import type { ProjectFixture } from '../support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { makeParts } from '../support/sweeper-fixture.ts';

export const OLD = ENCRYPTION_KEY;
export const NEW = { id: 'k2', key: Buffer.alloc(32, 2) };
export const BOTH = new SecretBox([NEW, OLD]);

export const makeJobDeps = ({ pool }: ProjectFixture, secrets = BOTH): JobDeps => ({
  ...makeParts(),
  pool,
  slowPool: pool,
  secrets,
});

/** Runs one pass. Returns how many steps it took. */
export async function sealAgain(deps: JobDeps, step = createSealedValuesSweep()): Promise<number> {
  let steps = 1;
  while ((await step(deps)) === 'more') steps += 1;
  return steps;
}

/** Many endpoints, each with one secret and an answer to its creation; all boxes were sealed with the old key for their place. */
export async function seedSealedEndpoints(
  { pool, project, secrets }: ProjectFixture,
  count: number,
): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, index) => `cb_${index}`);
  const refs = ids.map((endpointId) => ({ projectId: project.projectId, endpointId }));
  await pool.query(
    `insert into callback_endpoints (project_id, endpoint_id, alias, kind, url_box)
     select $1, v.id, v.id, 'webhook', v.box from unnest($2::text[], $3::bytea[]) as v (id, box)`,
    [project.projectId, ids, refs.map((ref) => sealUrl(secrets, ref, urlOf(ref.endpointId)))],
  );
  await pool.query(
    `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at)
     select $1, v.id, 1, v.box, now() from unnest($2::text[], $3::bytea[]) as v (id, box)`,
    [project.projectId, ids, refs.map((ref) => secrets.seal(ref.endpointId, secretPlace(ref)))],
  );
  await pool.query(
    `insert into idempotency_records (scope_id, key, fingerprint, status, body_box, created_at)
     select $1, v.id, '', 201, v.box, now() - v.place * interval '1 second'
     from unnest($2::text[], $3::bytea[]) with ordinality as v (id, box, place)`,
    [project.projectId, ids, refs.map((ref) => secrets.seal(ref.endpointId, answerPlace(ref)))],
  );
  return ids;
}
export const answerPlace = (ref: EndpointRef) => placeOf(ref.projectId, ref.endpointId, 'answer');
export const urlOf = (endpointId: string) => `https://receiver.example/${endpointId}`;
