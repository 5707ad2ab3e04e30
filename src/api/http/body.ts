// Request bodies of /v1: JSON in UTF-8, plain or gzip, at most 16 KiB on the wire and after inflation (docs/contract/calls.md).
// It refuses what a parser would read in silence: duplicate keys, `__proto__`, NUL, numbers that become Infinity.
import { gunzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { invalidField, ProblemError } from '../../domain/problem.ts';
import { readStrictJson } from './strict-json.ts';

export const MAX_BODY_BYTES = 16_384;

export function registerBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const parse = async (request: FastifyRequest, wire: Buffer): Promise<unknown> => {
    // Nothing is no body, whatever a client calls it that always names a type.
    if (wire.length === 0) return undefined;
    requireJson(request);
    const bytes = inflate(request, wire);
    return bytes.length === 0 ? undefined : readStrictJson(decodeText(bytes));
  };
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_BODY_BYTES }, parse);
}

/** `application/json`, with UTF-8 as its charset where it names one. */
function requireJson(request: FastifyRequest): void {
  const [type, ...parameters] = (request.headers['content-type'] ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') throw unsupported('Send the body as application/json.');
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length);
  if (charset !== undefined && !/^"?utf-?8"?$/.test(charset)) throw unsupported('Send the body in UTF-8.');
}

function inflate(request: FastifyRequest, wire: Buffer): Buffer {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === '' || encoding === 'identity') return wire;
  if (encoding !== 'gzip' && encoding !== 'x-gzip') throw unsupported('Send the body plain or with gzip.');
  try {
    return gunzipSync(wire, { maxOutputLength: MAX_BODY_BYTES });
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'ERR_BUFFER_TOO_LARGE') {
      throw invalidField('', 'Must be valid gzip, as Content-Encoding says.', 'invalid_encoding');
    }
    const detail = 'Send a body of at most 16 KiB after decompression.';
    throw new ProblemError('payload_too_large', { detail, cause });
  }
}

function decodeText(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalidField('', 'Must be UTF-8.', 'invalid_encoding');
  }
}

function unsupported(detail: string): ProblemError {
  return new ProblemError('unsupported_media_type', { detail });
}
