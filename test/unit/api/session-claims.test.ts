// Whom change records and audit lines show: a person may choose his name, so what the issuer vouches for stands behind it.
import { expect, it } from 'vitest';
import { readSession } from '../../../src/api/auth/session-claims.ts';

const displayOf = (claims: object, sub = 'idp|7') =>
  readSession({ sub, ...claims }, { organization: 'acme', roles: { [sub]: 'viewer' } }).display;

it.each([
  ['nothing but a subject', {}, 'idp|7'],
  ['a name', { name: ' Ann ' }, 'Ann (idp|7)'],
  ['a verified address', { email: 'ann@acme.example', email_verified: true }, 'ann@acme.example'],
  ['both', { name: 'Ann', email: 'ann@acme.example', email_verified: true }, 'Ann (ann@acme.example)'],
  ['the name of another', { name: 'bob@acme.example' }, 'bob@acme.example (idp|7)'],
  ['an address of another', { email: 'bob@acme.example' }, 'idp|7'],
  ['one that is not verified', { name: 'Ann', email: 'a@b.example', email_verified: false }, 'Ann (idp|7)'],
  ['one of a doubtful word', { email: 'a@b.example', email_verified: 'true' }, 'idp|7'],
  ['its own subject for a name', { name: 'idp|7' }, 'idp|7'],
  ['characters that hide and turn', { name: 'A\u202enn\u0000\u2066\n' }, 'Ann (idp|7)'],
  ['no texts', { name: 7, email: {}, email_verified: true }, 'idp|7'],
  ['nothing to be seen', { name: ' \u0007 ' }, 'idp|7'],
])('an actor with %s is shown by what is known of him', (_what, claims, shown) => {
  expect(displayOf(claims)).toBe(shown);
});

it('a name of any length leaves room for the subject, and both have 160 characters at most', () => {
  const long = '😀'.repeat(500);
  expect(displayOf({ name: long })).toBe(`${'😀'.repeat(152)} (idp|7)`);
  expect(displayOf({ name: 'Bob' }, 'x'.repeat(300))).toBe('x'.repeat(160));
});
