// Signing secrets at rest and in rotation: sealed, bound to their endpoint, at most two at a time.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  issueSecret,
  openUrl,
  openValidSecrets,
  reissueSecret,
  sealUrl,
} from '../../src/service/callbacks/endpoint-seal.ts';
import type { EndpointRef } from '../../src/store/callbacks/callback-endpoints.ts';
import { deleteSigningSecrets } from '../../src/store/callbacks/signing-secrets.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { seedProject } from '../support/seed.ts';
import { type CallbackFixture, openCallbackFixture } from './callback-fixture.ts';

let fixture: CallbackFixture;

beforeAll(async () => {
  fixture = await openCallbackFixture();
});
afterAll(async () => {
  await fixture?.close();
});

const refOf = (endpointId: string): EndpointRef => ({ projectId: fixture.project.projectId, endpointId });

it('no part of a signing secret is stored in the clear', async () => {
  const { pool, secrets } = fixture;
  const { secret } = await issueSecret(pool, secrets, refOf('sealed'), Date.now());
  const { rows } = await pool.query<{ box: string }>(
    "select encode(secret_box, 'escape') as box from signing_secrets where endpoint_id = 'sealed'",
  );
  expect(rows).toHaveLength(1);
  expect(rows[0]?.box).not.toContain(secret.slice(9));
  expect(await openValidSecrets(pool, secrets, refOf('sealed'))).toEqual([secret]);
});

it('a sealed secret that was copied from another endpoint does not open', async () => {
  const { pool, secrets } = fixture;
  await issueSecret(pool, secrets, refOf('mine'), Date.now());
  await issueSecret(pool, secrets, refOf('theirs'), Date.now());
  await pool.query(
    `update signing_secrets set secret_box =
       (select secret_box from signing_secrets where endpoint_id = 'mine') where endpoint_id = 'theirs'`,
  );
  await expect(openValidSecrets(pool, secrets, refOf('theirs'))).rejects.toThrow();
});

it('the sealed address of an endpoint does not open as its signing secret, nor in another project', async () => {
  const { pool, secrets } = fixture;
  const ref = refOf('purpose');
  await issueSecret(pool, secrets, ref, Date.now());
  await pool.query("update signing_secrets set secret_box = $1 where endpoint_id = 'purpose'", [
    sealUrl(secrets, ref, 'https://a.example'),
  ]);
  await expect(openValidSecrets(pool, secrets, ref)).rejects.toThrow();
  const elsewhere = { ...ref, projectId: (await seedProject(pool)).projectId };
  expect(() => openUrl(secrets, ref, sealUrl(secrets, elsewhere, 'https://a.example'))).toThrow();
});

it('in an overlap two secrets are valid, newest first, and one after it', async () => {
  const { pool, secrets } = fixture;
  const ref = refOf('overlap');
  const nowMs = Date.now();
  const first = await issueSecret(pool, secrets, ref, nowMs);
  const second = await reissueSecret(pool, secrets, { ...ref, version: 1, overlapSeconds: 900 }, nowMs);
  expect(second).toMatchObject({ version: 2, previous: { version: 1, endsMs: nowMs + 900_000 } });
  expect(await openValidSecrets(pool, secrets, ref)).toEqual([second.secret, first.secret]);
  const third = await reissueSecret(pool, secrets, { ...ref, version: 2, overlapSeconds: 900 }, nowMs);
  expect(await openValidSecrets(pool, secrets, ref)).toEqual([third.secret, second.secret]);
  // The same rotation an hour ago.
  await pool.query(
    "update signing_secrets set ends_at = $1 where endpoint_id = 'overlap' and ends_at is not null",
    [new Date(nowMs - 2_700_000)],
  );
  expect(await openValidSecrets(pool, secrets, ref)).toEqual([third.secret]);
});

it('a rotation without an overlap ends the old secret at once', async () => {
  const { pool, secrets } = fixture;
  const ref = refOf('abrupt');
  await issueSecret(pool, secrets, ref, Date.now() - 1000);
  const { rows } = await pool.query<{ now: number }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now',
  );
  const nowMs = rows[0]?.now ?? 0;
  const next = await reissueSecret(pool, secrets, { ...ref, version: 1, overlapSeconds: 0 }, nowMs);
  expect(next.previous).toBeUndefined();
  expect(await openValidSecrets(pool, secrets, ref)).toEqual([next.secret]);
});

it('a secret sealed with an older key opens as long as the key is configured', async () => {
  const { pool } = fixture;
  const older = { id: 'old', key: randomBytes(32) };
  const newer = { id: 'new', key: randomBytes(32) };
  const { secret } = await issueSecret(pool, new SecretBox([older]), refOf('keys'), Date.now());
  expect(await openValidSecrets(pool, new SecretBox([newer, older]), refOf('keys'))).toEqual([secret]);
  await expect(openValidSecrets(pool, new SecretBox([newer]), refOf('keys'))).rejects.toThrow(/key old/);
  const box = sealUrl(new SecretBox([newer, older]), refOf('keys'), 'https://a.example');
  expect(openUrl(new SecretBox([newer]), refOf('keys'), box)).toBe('https://a.example');
});

it('a deleted signing secret is gone', async () => {
  const { pool, secrets } = fixture;
  await issueSecret(pool, secrets, refOf('erased'), Date.now());
  await deleteSigningSecrets(pool, refOf('erased'));
  expect(await openValidSecrets(pool, secrets, refOf('erased'))).toEqual([]);
});
