// ETags: a formatted tag parses back, and no other text parses.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatEtag, ifMatch, parseEtag } from '../../src/contract/fields/headers.ts';

const kinds = fc.constantFrom('configuration', 'callback-endpoint', 'project', 'credential');

describe('ETags', () => {
  it('an ETag is its kind and version in quotes', () => {
    expect(formatEtag('configuration', 7)).toBe('"configuration-7"');
    expect(formatEtag('callback-endpoint', 1)).toBe('"callback-endpoint-1"');
  });

  it('a formatted ETag is a valid If-Match and parses back', () => {
    fc.assert(
      fc.property(kinds, fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (kind, version) => {
        const etag = formatEtag(kind, version);
        expect(ifMatch.safeParse(etag).success).toBe(true);
        expect(parseEtag(kind, etag)).toBe(version);
      }),
    );
  });

  it.each([
    '"project-1"',
    '"configuration-0"',
    '"configuration-01"',
    '"configuration-1.0"',
    '"configuration--1"',
    '"configuration-99999999999999999"',
    'configuration-1',
  ])('%s is not the ETag of a configuration', (value) => {
    expect(parseEtag('configuration', value)).toBeUndefined();
  });
});
