// Request headers: what Accept admits, and texts in UTF-8.
import { describe, expect, it } from 'vitest';
import { accepts, decodeHeader, preferredOf } from '../../../src/api/http/headers.ts';

describe('accepts', () => {
  it.each([
    [undefined, true],
    ['', true],
    ['*/*', true],
    ['application/json', true],
    ['APPLICATION/JSON; charset=utf-8', true],
    ['text/html, application/*;q=0.5', true],
    ['application/json;q=0, */*', false],
    ['*/*;q=0', false],
    ['text/html', false],
    ['application/json;q=x', false],
  ])('whether Accept: %s admits JSON is %s', (header, expected) => {
    expect(accepts(header, 'application/json')).toBe(expected);
  });
});

describe('preferredOf', () => {
  it.each([
    [undefined, 'application/x-ndjson'],
    ['text/csv', 'text/csv'],
    ['text/*;q=0.9, application/*;q=0.8', 'text/csv'],
    ['application/*, text/csv', 'application/x-ndjson'],
    ['text/csv;q=0.5, */*;q=0.4', 'text/csv'],
    ['text/csv;q=0, */*;q=0.1', 'application/x-ndjson'],
    ['application/json', undefined],
  ])('Accept: %s prefers %s', (header, expected) => {
    expect(preferredOf(header, ['application/x-ndjson', 'text/csv'])).toBe(expected);
  });
});

describe('decodeHeader', () => {
  it('decodeHeader reads UTF-8 and leaves other bytes as they are', () => {
    expect(decodeHeader(Buffer.from('Zürich', 'utf8').toString('latin1'))).toBe('Zürich');
    expect(decodeHeader('Z\u00fcrich')).toBe('Z\u00fcrich');
    expect(decodeHeader('plain')).toBe('plain');
  });
});
