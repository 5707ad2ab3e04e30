// An issuer that is not configured by name: the process's own token names it (docs/contract/tenancy.md).
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { SessionAuthenticator, type TrustedIssuer } from '../../src/api/auth/session-token.ts';
import type { ProblemCode, ProblemError } from '../../src/domain/problem.ts';
import { directoryIn } from '../../src/service/calls/directory.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts';

const EKS = 'https://oidc.eks.eu-central-1.amazonaws.com/id/0123456789ABCDEF';
const OPENSHIFT = 'https://kubernetes.default.svc';

let database: DatabaseFixture;
let cluster: TokenIssuer;
let folder: string;
let tokenFile: string;
let sessions: SessionAuthenticator;
let nowMs = 0;

beforeAll(async () => {
  database = await openDatabaseFixture();
  await database.pool.query(
    "insert into organizations (organization_id, name, plan) values (gen_random_uuid(), 'acme', 'free')",
  );
});
afterAll(() => database?.close());
beforeEach(async () => {
  cluster = await startTokenIssuer();
  folder = await mkdtemp(join(tmpdir(), 'own-issuer-'));
  tokenFile = join(folder, 'token');
  nowMs = 1_000;
});
afterEach(async () => {
  await sessions?.stop();
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});

/** The keys come from the API server, whatever the issuer's address is. */
function open(more: Partial<TrustedIssuer> = {}): void {
  const { issuer: _named, ...settings } = cluster.trusted({
    organization: 'acme',
    roles: { ann: 'operator' },
  });
  const trusted = { ...settings, jwksUri: `${cluster.url}/keys`, tokenFile, ...more };
  sessions = new SessionAuthenticator(directoryIn(database.pool), [trusted], () => nowMs);
}

/** The kubelet has written the process's own token, which is for the API server. */
const mountTokenOf = async (issuer: string) =>
  writeFile(tokenFile, `${await cluster.sign({ subject: 'api', issuer, audience: issuer })}\n`);
const sign = (issuer: string, more = {}) => cluster.sign({ subject: 'ann', issuer, ...more });
const outcome = (token: string): Promise<ProblemCode | 'ok'> =>
  sessions.authenticate(token).then(
    () => 'ok',
    (error: ProblemError) => error.code,
  );

it.each([EKS, OPENSHIFT])('a token of the issuer %s is good, which the own token names', async (issuer) => {
  await mountTokenOf(issuer);
  open();
  expect(await outcome(await sign(issuer))).toBe('ok');
  expect(await outcome(await sign('https://elsewhere.example.com'))).toBe('authentication_required');
  expect(await outcome(await sign(issuer, { audience: issuer }))).toBe('authentication_required');
});

it('a token that names no issuer is refused, before and after the own token was read', async () => {
  open();
  const nameless = await sign('');
  expect(await outcome(nameless)).toBe('authentication_required');
  await mountTokenOf(EKS);
  expect(await outcome(await sign(EKS))).toBe('ok');
  expect(await outcome(nameless)).toBe('authentication_required');
});

it('while the own token cannot be read a token is unavailable, never passed, and good when it is there', async () => {
  open();
  const token = await sign(EKS);
  expect(await outcome(token)).toBe('temporarily_unavailable');
  await writeFile(tokenFile, 'not a token');
  expect(await outcome(token)).toBe('temporarily_unavailable');
  await mountTokenOf(EKS);
  expect(await outcome(token)).toBe('ok');
});

it('the own token is read again when the cluster has got another issuer, at most once a second', async () => {
  await mountTokenOf(EKS);
  open();
  expect(await outcome(await sign(EKS))).toBe('ok');
  await mountTokenOf(OPENSHIFT);
  const fresh = await sign(OPENSHIFT);
  expect(await outcome(fresh)).toBe('authentication_required');
  nowMs += 1_000;
  expect(await outcome(fresh)).toBe('ok');
});

it('tokens of the name before stay good for a day, as they last no longer', async () => {
  await mountTokenOf(EKS);
  open();
  expect(await outcome(await sign(EKS))).toBe('ok');
  await mountTokenOf(OPENSHIFT);
  nowMs += 1_000;
  expect(await outcome(await sign(OPENSHIFT))).toBe('ok');
  const before = (jti: string) => sign(EKS, { claims: { jti } });
  expect(await outcome(await before('at once'))).toBe('ok');
  nowMs += 86_390_000;
  expect(await outcome(await before('at the end'))).toBe('ok');
  nowMs += 11_000;
  expect(await outcome(await before('after a day'))).toBe('authentication_required');
  expect(await outcome(await sign(OPENSHIFT, { claims: { jti: 'after a day' } }))).toBe('ok');
});

it('a configured issuer is the only one, whatever the own token says', async () => {
  await mountTokenOf(EKS);
  open({ issuer: OPENSHIFT });
  expect(await outcome(await sign(EKS))).toBe('authentication_required');
  expect(await outcome(await sign(OPENSHIFT))).toBe('ok');
});
