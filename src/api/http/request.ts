// What a request of /v1 says: path and query as the caller wrote them, and the body, JSON in UTF-8, plain or gzip, at
// most 16 KiB after inflation unless the operation takes more (docs/contract/calls.md). Nothing is repaired in silence: a broken escape is a
// refusal, a repeated parameter is a list, and the JSON must mean the same to every reader (I-JSON, RFC 7493): no
// duplicate keys, no `__proto__`, no NUL or broken characters, no numbers beyond a double, a bounded depth.
// This file knows no schema.
import { gunzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { fieldPath } from '../../contract/fields/field-errors.ts';
import { validationFailed } from '../../contract/operations/request.ts';
import { checkJsonStructure, jsonRefusal } from '../../domain/json-structure.ts';
import { type FieldError, invalidField, ProblemError } from '../../domain/problem.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation gets the text of the body. */
    rawBody?: boolean;
    /** Absent: MAX_BODY_BYTES. */
    maxBodyBytes?: number;
  }
}

export const MAX_BODY_BYTES = 16_384;
/** On the wire: bytes that can't be compressed grow a little, and gzip has a header. */
export const wireBytesOf = (maxBodyBytes: number) => maxBodyBytes + 16_384;

/** How many bytes the body of a call may have, in words. */
export function sizeOf(maxBodyBytes = MAX_BODY_BYTES): string {
  const kib = maxBodyBytes / 1024;
  return kib < 1024 ? `${kib} KiB` : `${kib / 1024} MiB`;
}

export function registerBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const parse = async (request: FastifyRequest, wire: Buffer): Promise<unknown> => {
    if (!request.raw.complete)
      throw tooLarge('The body comes in too many small chunks: send it in larger ones.');
    // Some clients always send a content type: zero bytes count as no body, whatever their type.
    if (wire.length === 0) return undefined;
    requireJson(request);
    const bytes = inflate(request, wire, request.routeOptions.config.maxBodyBytes);
    if (bytes.length === 0) return undefined;
    const text = decodeText(bytes);
    return request.routeOptions.config.rawBody ? text : readStrictJson(text);
  };
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: wireBytesOf(MAX_BODY_BYTES) }, parse);
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

function inflate(request: FastifyRequest, wire: Buffer, maxBytes = MAX_BODY_BYTES): Buffer {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === '' || encoding === 'identity') {
    if (wire.length > maxBytes) throw tooLarge(`The body is too large: send at most ${sizeOf(maxBytes)}.`);
    return wire;
  }
  if (encoding !== 'gzip' && encoding !== 'x-gzip')
    throw unsupported('The content encoding is unknown: send the body plain or with gzip.');
  try {
    return gunzipSync(wire, { maxOutputLength: maxBytes });
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'ERR_BUFFER_TOO_LARGE') {
      throw invalidField('', 'Must be valid gzip, as Content-Encoding says.', 'invalid_encoding');
    }
    throw tooLarge(`The body is too large: send at most ${sizeOf(maxBytes)} after decompression.`);
  }
}

function tooLarge(detail: string): ProblemError {
  return new ProblemError('payload_too_large', { detail });
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

/** Whether Postgres can store a text: without a NUL and without half of a surrogate pair. For texts from elsewhere. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

export interface RequestTarget {
  /** Not decoded. */
  path: string;
  /** Decoded, in the order of the URL. */
  pairs: [string, string][];
  /** A repeated parameter is a list. */
  query: Record<string, string | string[]>;
}

const MAX_PARAMETERS = 100;

/** Throws `validation_failed` for too many parameters, and for escapes and NUL that no text has, each by its parameter. */
export function readTarget(url = '/'): RequestTarget {
  const mark = url.indexOf('?');
  const path = mark < 0 ? url : url.slice(0, mark);
  if (mark < 0) return { path, pairs: [], query: {} };
  const parts = url.slice(mark + 1).split('&');
  if (parts.length > MAX_PARAMETERS)
    throw new ProblemError('validation_failed', {
      detail: `The URL has too many query parameters: send at most ${MAX_PARAMETERS}.`,
    });
  const written = parts.filter((part) => part !== '').map(splitPair);
  const faults = written.flatMap(faultsOf);
  if (faults.length > 0) throw validationFailed(faults);
  const pairs = written.map(([name, value]): [string, string] => [decode(name), decode(value)]);
  return { path, pairs, query: collect(pairs) };
}

function splitPair(part: string): [string, string] {
  const equals = part.indexOf('=');
  return equals < 0 ? [part, ''] : [part.slice(0, equals), part.slice(equals + 1)];
}

/** At most one fault of a parameter. One whose name is at fault is named as it is written. */
function faultsOf([name, value]: [string, string]): FieldError[] {
  const nameFault = faultOf(name);
  const fault = nameFault ?? faultOf(value);
  return fault ? [{ ...fault, path: fieldPath([nameFault ? name : decode(name)]) }] : [];
}

function faultOf(text: string): Omit<FieldError, 'path'> | undefined {
  if (!isDecodable(text)) return UNREADABLE;
  if (!decode(text).includes('\0')) return undefined;
  return { code: 'invalid_character', message: 'Remove the NUL character (%00).' };
}

/** The fault of a text with escapes that `isDecodable` refuses. */
export const UNREADABLE = {
  code: 'invalid_encoding',
  message: 'Encode it again: one of its escapes (%) is not UTF-8.',
};

export function isDecodable(text: string): boolean {
  try {
    decode(text);
    return true;
  } catch {
    return false;
  }
}

/** Throws for escapes that are not UTF-8. */
function decode(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}

function collect(pairs: readonly [string, string][]): Record<string, string | string[]> {
  const lists = new Map<string, string[]>();
  for (const [name, value] of pairs) {
    const list = lists.get(name);
    if (list) list.push(value);
    else lists.set(name, [value]);
  }
  // fromEntries makes own properties, also of a parameter named __proto__.
  return Object.fromEntries(
    [...lists].map(([name, [first = '', ...rest]]) => [name, rest.length === 0 ? first : [first, ...rest]]),
  );
}
