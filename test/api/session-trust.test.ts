// For how long a verified session token is trusted, on a clock of the test's own (docs/contract/tenancy.md).
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SessionAuthenticator, type TrustedIssuer } from '../../src/api/auth/session-token.ts';
import type { ProblemCode, ProblemError } from '../../src/domain/problem.ts';
import { directoryIn } from '../../src/service/calls/directory.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts';
import { waitFor } from '../support/wait-for.ts';

let database: DatabaseFixture;
let issuer: TokenIssuer;
let sessions: SessionAuthenticator;
let nowSeconds = 0;

beforeAll(async () => {
  database = await openDatabaseFixture();
});
afterAll(async () => {
  await database?.close();
});
beforeEach(async () => {
  await database.pool.query(
    `insert into organizations (organization_id, name, plan) values (gen_random_uuid(), 'acme', 'free')
     on conflict (name) do update set plan = 'free', service_state = 'active'`,
  );
  issuer = await startTokenIssuer();
  nowSeconds = 1_000;
});
afterEach(async () => {
  await sessions?.stop();
  await issuer?.close();
});

function open(settings: Partial<TrustedIssuer> = {}): void {
  const trusted = issuer.trusted({ organization: 'acme', roles: { ann: 'owner' }, ...settings });
  sessions = new SessionAuthenticator(directoryIn(database.pool), [trusted], () => nowSeconds * 1_000);
}

const sign = (options: Parameters<TokenIssuer['sign']>[0] = {}) =>
  issuer.sign({ subject: 'ann', ...options });
/** `ok`, or the code of the refusal. */
const outcome = (token: string): Promise<ProblemCode | 'ok'> =>
  sessions.authenticate(token).then(
    () => 'ok',
    (error: ProblemError) => error.code,
  );
const readsOfKeys = () => issuer.requests.filter((path) => path === '/keys').length;

describe('the keys of an issuer', () => {
  it('keys are kept for five minutes: a token whose key has left ends then, verified a moment before or not', async () => {
    open();
    const token = await sign();
    expect(await outcome(token)).toBe('ok');
    await issuer.rotateKey();
    nowSeconds += 149;
    expect([await outcome(token), readsOfKeys()]).toEqual(['ok', 1]);
    nowSeconds += 151;
    expect([await outcome(token), readsOfKeys()]).toEqual(['authentication_required', 2]);
  });

  it('keys are read again beside the calls after half of their time, so that no call waits', async () => {
    open();
    const token = await sign();
    expect(await outcome(token)).toBe('ok');
    nowSeconds += 151;
    expect(await outcome(token)).toBe('ok');
    await waitFor(() => readsOfKeys() === 2, { what: 'the keys are read' });
    nowSeconds += 298;
    issuer.broken = true;
    expect(await outcome(token)).toBe('ok');
  });

  it('while an issuer is away its tokens are good for five minutes and then unavailable, never passed', async () => {
    open();
    const known = await sign();
    const other = await sign({ claims: { jti: 'other' } });
    expect(await outcome(known)).toBe('ok');
    issuer.broken = true;
    nowSeconds += 299;
    expect([await outcome(known), await outcome(other)]).toEqual(['ok', 'ok']);
    nowSeconds += 1; // both were verified a second ago
    expect([await outcome(known), await outcome(other)]).toEqual([
      'temporarily_unavailable',
      'temporarily_unavailable',
    ]);
    nowSeconds += 10_000;
    expect(await outcome(known)).toBe('temporarily_unavailable');
    issuer.broken = false;
    await waitFor(async () => (await outcome(known)) === 'ok', { what: 'the issuer is asked again' });
  });

  it('an unknown key reads the keys again, and a verified token whose key is not in them ends at once', async () => {
    open();
    const old = await sign();
    expect(await outcome(old)).toBe('ok');
    await issuer.rotateKey();
    const fresh = await sign();
    nowSeconds += 3;
    expect(await outcome(old)).toBe('ok');
    expect(await outcome(fresh)).toBe('ok');
    expect(await outcome(old)).toBe('authentication_required');
  });

  it('a verified token stays trusted when the keys are read again and are the same', async () => {
    open();
    const token = await sign();
    const stranger = await startTokenIssuer();
    const unknownKey = await stranger.sign({ subject: 'ann', issuer: issuer.url });
    await stranger.close();
    expect(await outcome(token)).toBe('ok');
    nowSeconds += 3;
    expect([await outcome(unknownKey), readsOfKeys()]).toEqual(['authentication_required', 2]);
    expect([await outcome(token), readsOfKeys()]).toEqual(['ok', 2]);
  });

  it('tokens with unknown keys read the keys at most every two seconds', async () => {
    open();
    expect(await outcome(await sign())).toBe('ok');
    await issuer.rotateKey();
    const fresh = await sign();
    nowSeconds += 1;
    expect([await outcome(fresh), readsOfKeys()]).toEqual(['authentication_required', 1]);
    nowSeconds += 1;
    expect([await outcome(fresh), readsOfKeys()]).toEqual(['ok', 2]);
  });

  it('calls that need the keys at once share one read', async () => {
    open();
    const tokens = await Promise.all(
      Array.from({ length: 20 }, (_, index) => sign({ claims: { jti: `${index}` } })),
    );
    expect(new Set(await Promise.all(tokens.map(outcome)))).toEqual(new Set(['ok']));
    expect(readsOfKeys()).toBe(1);
  });
});

describe('two issuers of one name and audience, as those of two clusters', () => {
  let other: TokenIssuer;
  beforeEach(async () => {
    other = await startTokenIssuer();
    return () => other.close();
  });
  const openBoth = () => {
    const trusted = [issuer, other].map(({ url }, index) => ({
      ...issuer.trusted({ organization: 'acme', roles: { [index === 0 ? 'ann' : 'bob']: 'owner' } }),
      jwksUri: `${url}/keys`,
    }));
    sessions = new SessionAuthenticator(directoryIn(database.pool), trusted, () => nowSeconds * 1_000);
  };
  const signOther = (options: Parameters<TokenIssuer['sign']>[0] = {}) =>
    other.sign({ subject: 'bob', issuer: issuer.url, ...options });

  it('each signs in with its own keys and roles', async () => {
    openBoth();
    expect(await outcome(await sign())).toBe('ok');
    expect(await outcome(await signOther())).toBe('ok');
    expect(await outcome(await signOther({ subject: 'ann' }))).toBe('permission_denied');
    expect(await outcome(await signOther({ lifeSeconds: -60 }))).toBe('authentication_required');
  });

  it('one that is away does not keep the tokens of the other out', async () => {
    openBoth();
    issuer.broken = true;
    expect(await outcome(await signOther())).toBe('ok');
    expect(await outcome(await sign())).toBe('temporarily_unavailable');
  });

  it('a token that neither has signed is refused', async () => {
    openBoth();
    const stranger = await startTokenIssuer();
    const token = await stranger.sign({ subject: 'ann', issuer: issuer.url });
    await stranger.close();
    expect(await outcome(token)).toBe('authentication_required');
  });
});

it('a token older than maxTokenAge of its issuer, or of no known age, is refused, whatever its expiry is', async () => {
  open({ maxTokenAge: 600 });
  expect(await outcome(await sign({ ageSeconds: 540, lifeSeconds: 86_400 }))).toBe('ok');
  for (const ageSeconds of [660, null]) {
    expect(await outcome(await sign({ ageSeconds, lifeSeconds: 86_400 }))).toBe('authentication_required');
  }
});

it('a good token is not refused for a database that is away', async () => {
  open();
  const pool = openPool({ databaseUrl: 'postgresql://127.0.0.1:9/none', size: 1, applicationName: 'test' });
  const withoutDatabase = new SessionAuthenticator(directoryIn(pool), [
    issuer.trusted({ organization: 'acme', roles: { ann: 'owner' } }),
  ]);
  await expect(withoutDatabase.authenticate(await sign())).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  await withoutDatabase.stop();
  await pool.end();
});

it("a change of plan or service state of a session's organization counts within five seconds", async () => {
  open();
  const token = await sign();
  const organization = async () => (await sessions.authenticate(token)).organization;
  expect(await organization()).toMatchObject({ plan: 'free', serviceState: 'active' });
  await database.pool.query("update organizations set plan = 'scale', service_state = 'canceled'");
  nowSeconds += 5;
  expect(await organization()).toMatchObject({ plan: 'scale', serviceState: 'canceled' });
});

describe('the review of a token by the API server', () => {
  const reviews = () => issuer.requests.filter((path) => path === '/reviews').length;
  const yes = { status: { authenticated: true, audiences: ['beatkeeper'] } };
  const openReviewed = () => open({ tokenReviewUri: `${issuer.url}/reviews` });

  it('the API server is asked about the token for the audience, and its answer holds for 60 s', async () => {
    openReviewed();
    const token = await sign();
    const asked: unknown[] = [];
    issuer.review = (body) => {
      asked.push(body);
      return yes;
    };
    expect(await outcome(token)).toBe('ok');
    expect(asked).toEqual([
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, audiences: ['beatkeeper'] },
      },
    ]);
    nowSeconds += 59;
    expect([await outcome(token), reviews()]).toEqual(['ok', 1]);
    nowSeconds += 1;
    issuer.review = () => ({ status: { authenticated: false } });
    expect([await outcome(token), reviews()]).toEqual(['authentication_required', 2]);
  });

  it.each([
    ['that it knows no such token', { status: { authenticated: false, error: 'gone' } }],
    ['about another audience', { status: { authenticated: true, audiences: ['https://kubernetes'] } }],
    ['about no audience', { status: { authenticated: true } }],
    ['without a status', {}],
  ])('a token is refused by the answer %s', async (_what, answer) => {
    openReviewed();
    issuer.review = () => answer;
    expect(await outcome(await sign())).toBe('authentication_required');
  });

  it('a token is unavailable while the API server does not answer, and asked about again afterwards', async () => {
    openReviewed();
    const token = await sign();
    expect(await outcome(token)).toBe('temporarily_unavailable');
    issuer.review = () => yes;
    await waitFor(async () => (await outcome(token)) === 'ok', { what: 'the API server is asked again' });
  });

  it.each([
    ['expiry', { lifeSeconds: 30 }],
    ['greatest age', { ageSeconds: 570 }],
  ])('the answer does not hold beyond the %s of its token', async (_what, options) => {
    open({ tokenReviewUri: `${issuer.url}/reviews`, maxTokenAge: 600 });
    issuer.review = () => yes;
    const token = await sign(options);
    expect([await outcome(token), reviews()]).toEqual(['ok', 1]);
    // Passes on the clock of the test alone: to the library the token is as young as before.
    nowSeconds += 31;
    expect([await outcome(token), reviews()]).toEqual(['ok', 2]);
  });

  it('only a token that its signature proves is sent to the API server', async () => {
    openReviewed();
    const [header, payload] = (await sign()).split('.');
    expect(await outcome(`${header}.${payload}.AAAA`)).toBe('authentication_required');
    expect(reviews()).toBe(0);
  });

  it('calls with one token at once share one review', async () => {
    openReviewed();
    const token = await sign();
    const answer = Promise.withResolvers<object>();
    issuer.review = () => answer.promise;
    const calls = Array.from({ length: 20 }, () => outcome(token));
    await waitFor(() => reviews() === 1, { what: 'the review is asked for' });
    answer.resolve(yes);
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['ok']));
    expect(reviews()).toBe(1);
  });

  it('nobody without a role or a known organization is reviewed, nor pushes out a token that is kept', async () => {
    const roles = { ann: 'owner' } as const;
    open({ tokenReviewUri: `${issuer.url}/reviews`, organizationClaim: 'org', roles });
    issuer.review = () => yes;
    const token = await sign({ claims: { org: 'acme' } });
    expect(await outcome(token)).toBe('ok');
    const foreign = [{ org: 'nobody' }, {}].map(async (claims) => outcome(await sign({ claims })));
    expect(new Set(await Promise.all(foreign))).toEqual(new Set(['permission_denied']));
    for (let round = 0; round < 101; round += 1) {
      const strangers = Array.from({ length: 100 }, async (_, index) =>
        outcome(await sign({ subject: `stranger ${round} ${index}`, claims: { org: 'acme' } })),
      );
      expect(new Set(await Promise.all(strangers))).toEqual(new Set(['permission_denied']));
    }
    expect([await outcome(token), reviews()]).toEqual(['ok', 1]);
  });

  it('of one subject 32 tokens are kept, the newest, and those of others beside them', async () => {
    open({ tokenReviewUri: `${issuer.url}/reviews`, roles: { ann: 'owner', bob: 'viewer' } });
    issuer.review = () => yes;
    const token = await sign();
    expect(await outcome(token)).toBe('ok');
    const many = await Promise.all(
      Array.from({ length: 33 }, (_, index) => sign({ subject: 'bob', claims: { jti: `${index}` } })),
    );
    for (const one of many) expect(await outcome(one)).toBe('ok');
    expect(reviews()).toBe(34);
    for (const one of [token, ...many.slice(1)]) expect(await outcome(one)).toBe('ok');
    expect(reviews()).toBe(34);
    expect([await outcome(many[0] ?? ''), reviews()]).toEqual(['ok', 35]);
  });

  it('a refusal is remembered for 5 s', async () => {
    openReviewed();
    const token = await sign();
    issuer.review = () => ({ status: { authenticated: false } });
    expect([await outcome(token), reviews()]).toEqual(['authentication_required', 1]);
    issuer.review = () => yes;
    nowSeconds += 4;
    expect([await outcome(token), reviews()]).toEqual(['authentication_required', 1]);
    nowSeconds += 1;
    expect([await outcome(token), reviews()]).toEqual(['ok', 2]);
  });
});
