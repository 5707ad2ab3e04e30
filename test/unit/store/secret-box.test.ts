// Sealed values: each opens with its own key, in its own place, and unchanged.
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { placeOf, SecretBox } from '../../../src/store/postgres/secret-box.ts';

const PURPOSES = ['url', 'signing-secret', 'answer'] as const;
const [one, other] = ['0190a5b0-0000-7000-8000-000000000001', '0190a5b0-0000-7000-8000-000000000002'];
const box = new SecretBox([{ id: 'k1', key: randomBytes(32) }]);

it('a sealed value opens for its project, its row and its purpose, and for no other of each', () => {
  const sealed = box.seal('text', placeOf(one, 'cb_1', 'url'));
  expect(box.open(sealed, placeOf(one, 'cb_1', 'url'))).toBe('text');
  for (const place of [
    placeOf(other, 'cb_1', 'url'),
    placeOf(one, 'cb_2', 'url'),
    placeOf(one, 'cb_1', 'signing-secret'),
    placeOf(one, 'cb_1', 'answer'),
  ]) {
    expect(() => box.open(sealed, place)).toThrow();
  }
});

it('no two places have the same associated data, whatever characters an idempotency key has', () => {
  // The characters of a key: docs/contract/calls.md.
  const rowId = fc.stringMatching(/^[a-zA-Z0-9._~:/+-]{1,20}$/);
  const place = fc.tuple(fc.constantFrom(one, other), rowId, fc.constantFrom(...PURPOSES));
  fc.assert(
    fc.property(place, place, (a, b) => {
      expect(placeOf(...a) === placeOf(...b)).toBe(a.join('\n') === b.join('\n'));
    }),
  );
});

it('a sealed value whose key is not configured does not open, and the error says which key it needs', () => {
  const sealed = new SecretBox([{ id: 'k0', key: randomBytes(32) }]).seal('text', 'place');
  expect(() => box.open(sealed, 'place')).toThrow(
    'The encryption key k0 is not configured: add it to BEATKEEPER_ENCRYPTION_KEYS.',
  );
});

it('a sealed value of which any byte was changed does not open', () => {
  const sealed = box.seal('text', 'place');
  for (let index = 0; index < sealed.length; index += 1) {
    const changed = Buffer.from(sealed);
    changed[index] = (changed[index] ?? 0) ^ 1;
    expect(() => box.open(changed, 'place')).toThrow();
  }
});
