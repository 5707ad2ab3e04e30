// Reviews that wait for each other: who has many tokens delays himself (docs/contract/tenancy.md).
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TokenReviews } from '../../../src/api/auth/token-reviews.ts';
import { startTokenIssuer, type TokenIssuer } from '../../support/token-issuer.ts';
import { waitFor } from '../../support/wait-for.ts';

const yes = { status: { authenticated: true, audiences: ['beatkeeper'] } };
const NEVER_MS = 100_000_000;
let issuer: TokenIssuer;
let reviewer: TokenReviews;
/** The tokens that the issuer was asked about. */
let asked: string[] = [];
let release: () => void = () => undefined;
const openReviewer = ({ patienceMs = NEVER_MS } = {}) => {
  reviewer = new TokenReviews(
    { issuer: issuer.url, audience: 'beatkeeper', tokenReviewUri: `${issuer.url}/reviews` },
    { patienceMs, timeoutMs: NEVER_MS },
  );
  asked = [];
  const held = Promise.withResolvers<void>();
  release = held.resolve;
  issuer.review = async (body) => {
    const { token } = (body as { spec: { token: string } }).spec;
    asked.push(token);
    if (token.startsWith('held')) await held.promise;
    return token.startsWith('busy') ? 429 : yes;
  };
};
const review = (token: string, subject: string) =>
  reviewer.isAuthenticated(token, subject).catch((error: Error) => error.name);
beforeEach(async () => {
  issuer = await startTokenIssuer();
});
afterEach(async () => {
  release();
  await reviewer?.close();
  await issuer?.close();
});

it('two tokens of a subject are reviewed at once, and those of others beside them', async () => {
  openReviewer();
  const tokens = Array.from({ length: 20 }, (_, index) => `held ${index}`);
  const ofOne = tokens.map((token) => review(token, 'bob'));
  await waitFor(() => asked.length === 2, { what: 'two reviews are asked for' });
  expect(await review('of another', 'ann')).toBe(true);
  expect(asked.toSorted()).toEqual(['held 0', 'held 1', 'of another']);
  release();
  expect(new Set(await Promise.all(ofOne))).toEqual(new Set([true]));
  expect(asked.slice(3).toSorted()).toEqual(tokens.slice(2).toSorted());
});

it('who comes while others hold all connections need not wait for all of theirs', async () => {
  openReviewer();
  const subjects = ['a', 'b', 'c', 'd', 'e'];
  const all = subjects.flatMap((subject) =>
    Array.from({ length: 10 }, (_, index) => review(`held ${index} ${subject}`, subject)),
  );
  await waitFor(() => asked.length === 8, { what: 'all connections are taken' });
  const late = review('late', 'late');
  release();
  expect(new Set(await Promise.all([...all, late]))).toEqual(new Set([true]));
  // Behind two of each; requests that are sent at once may arrive in another order.
  expect(asked.indexOf('late')).toBeLessThan(25);
});

it('one that gets no place in time fails alone, without a pause for others', async () => {
  openReviewer({ patienceMs: 1 });
  const held = [review('held 1', 'bob'), review('held 2', 'bob')];
  expect(await review('held 3', 'bob')).toBe('IssuerUnreachable');
  expect(await review('of another', 'ann')).toBe(true);
  release();
  expect(await Promise.all(held)).toEqual([true, true]);
  expect(await review('free again', 'bob')).toBe(true);
  expect(asked).not.toContain('held 3');
});

it('one that the API server refuses with 429 fails alone, without a pause for others', async () => {
  openReviewer();
  expect(await review('busy', 'bob')).toBe('IssuerUnreachable');
  expect(await review('of another', 'ann')).toBe(true);
});
