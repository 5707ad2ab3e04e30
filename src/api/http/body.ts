// Request bodies of /v1: JSON in UTF-8, plain or gzip, at most 16 KiB before and after inflation (docs/contract/calls.md).
// The JSON must mean the same to every reader (I-JSON, RFC 7493): no duplicate keys, no `__proto__`, no NUL or broken
// characters, no numbers beyond a double, a bounded depth. This file knows no schema.
import { gunzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { checkJsonStructure, jsonRefusal } from '../../domain/json-structure.ts';
import { invalidField, ProblemError } from '../../domain/problem.ts';

export const MAX_BODY_BYTES = 16_384;

export function registerBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const parse = async (request: FastifyRequest, wire: Buffer): Promise<unknown> => {
    // Some clients always send a content type: zero bytes count as no body, whatever their type.
    if (wire.length === 0) return undefined;
    requireJson(request);
    const bytes = inflate(request, wire);
    return bytes.length === 0 ? undefined : readStrictJson(decodeText(bytes));
  };
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_BODY_BYTES }, parse);
}

/** Accepts `application/json`; a charset, where there is one, must be UTF-8. */
function requireJson(request: FastifyRequest): void {
  const [type, ...parameters] = (request.headers['content-type'] ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase());
  if (type !== 'application/json')
    throw unsupported('The body is not application/json: send it as application/json.');
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length);
  if (charset !== undefined && !/^"?utf-?8"?$/.test(charset))
    throw unsupported('The charset of the body is not UTF-8: send it in UTF-8.');
}

function inflate(request: FastifyRequest, wire: Buffer): Buffer {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === '' || encoding === 'identity') return wire;
  if (encoding !== 'gzip' && encoding !== 'x-gzip')
    throw unsupported('The content encoding is unknown: send the body plain or with gzip.');
  try {
    return gunzipSync(wire, { maxOutputLength: MAX_BODY_BYTES });
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'ERR_BUFFER_TOO_LARGE') {
      throw invalidField('', 'Must be valid gzip, as Content-Encoding says.', 'invalid_encoding');
    }
    const detail = 'The body is too large: send at most 16 KiB after decompression.';
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

/** The value of a JSON text. Throws `validation_failed` that names the place of the first fault. */
function readStrictJson(text: string): unknown {
  const value = parse(text);
  checkJsonStructure(text);
  checkValue(value, []);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The message of the parser would repeat parts of the body.
    throw jsonRefusal([], 'invalid_json', 'The body is not valid JSON.');
  }
}

function checkValue(value: unknown, path: readonly (string | number)[]): void {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw jsonRefusal(path, 'too_big', 'Must be a finite number.');
  }
  if (typeof value === 'string') checkText(value, path);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    checkText(key, path);
    checkValue(inner, [...path, key]);
  }
}

function checkText(text: string, path: readonly (string | number)[]): void {
  if (text.includes('\0')) throw jsonRefusal(path, 'invalid_character', 'Remove the NUL character.');
  if (!text.isWellFormed())
    throw jsonRefusal(path, 'invalid_character', 'Remove the half of a surrogate pair.');
}
