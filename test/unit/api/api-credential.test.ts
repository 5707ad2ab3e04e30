// In which share of the database a credential is read: strangers hold up nobody who is known.

import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { CredentialAuthenticator } from '../../../src/api/auth/api-credential.ts';
import { type Principal, shareOfPrincipal } from '../../../src/api/auth/principal.ts';
import { directoryIn } from '../../../src/service/calls/directory.ts';
import {
  digestOfSecret,
  formatCredential,
  newCredentialId,
  newCredentialSecret,
} from '../../../src/service/tenancy/credential-token.ts';
import type { Queryable } from '../../../src/store/postgres/pool.ts';
import type { Log } from '../../../src/telemetry/log.ts';

const KEPT_MS = 4_000;
const LATELY_MS = 60_000;

const credentialId = newCredentialId();
const log = { warn: () => undefined } as unknown as Log;
let secret: string;
let reads: string[];
let credentials: CredentialAuthenticator;

beforeEach(() => {
  vi.useFakeTimers();
  secret = newCredentialSecret();
  reads = [];
  credentials = new CredentialAuthenticator(
    { known: directoryIn(share('known')), strangers: directoryIn(share('strangers')) },
    share('known'),
    log,
  );
});
afterEach(() => {
  vi.useRealTimers();
});

function share(name: string): Queryable {
  const query = async ({ values: [id] }: { values: string[] }) => {
    reads.push(name);
    const row = {
      credentialId,
      projectId: 'project',
      digest: digestOfSecret(secret),
      previousDigest: null,
      expiresInMs: null,
      previousEndsInMs: null,
      revoked: false,
    };
    return { rows: id === credentialId ? [row] : [] };
  };
  return { query } as unknown as Queryable;
}

const signIn = (withSecret = secret, id = credentialId) =>
  credentials.authenticate(formatCredential({ credentialId: id, secret: withSecret }));
const refused = { code: 'authentication_required' };

it('a credential that authenticated in the last minute is read apart from strangers', async () => {
  await signIn();
  vi.advanceTimersByTime(KEPT_MS);
  await expect(signIn(secret, newCredentialId())).rejects.toMatchObject(refused);
  await signIn();
  expect(reads).toEqual(['strangers', 'strangers', 'known']);
  vi.advanceTimersByTime(LATELY_MS);
  await signIn();
  expect(reads.slice(3)).toEqual(['strangers']);
});

it('wrong secrets of a known credential are read among strangers, and the right one is still known', async () => {
  await signIn();
  for (let times = 0; times < 3; times += 1) {
    await expect(signIn(newCredentialSecret())).rejects.toMatchObject(refused);
  }
  await signIn();
  expect(reads).toEqual(['strangers', 'strangers', 'strangers', 'strangers']);
});

it('a secret that is newer than what is known works at once, and the old one ends', async () => {
  const old = secret;
  await signIn();
  secret = newCredentialSecret();
  await signIn();
  await expect(signIn(old)).rejects.toMatchObject(refused);
});

it('the operator, each session and each project find out in shares of their own what they may do', () => {
  const session = { kind: 'session', role: 'viewer', organizationId: 'org', subject: 'ann' } as Principal;
  const operator = { ...session, role: 'operator' } as Principal;
  const credential = { kind: 'credential', role: 'viewer', projectId: 'project' } as Principal;
  expect([session, operator, credential].map(shareOfPrincipal)).toEqual(['org ann', 'operator', 'project']);
});
