// Reads the body of a beat in bounded memory. Of text the first characters are kept and the rest is dropped, so that a
// job that posts its whole output does not lose its beat; JSON is read up to its limit.
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip, gunzipSync } from 'node:zlib';
import { MAX_MESSAGE_CHARACTERS } from '../domain/beat-input.ts';
import { ProblemError, WHOLE_BODY } from '../domain/problem.ts';

/** On the wire and after inflation (docs/contract/calls.md). */
export const MAX_JSON_BYTES = 16_384;
/** The most bytes read and dropped of a long body; past it the connection is closed after the answer. */
const MAX_DRAIN_BYTES = 10 * 1024 * 1024;
/** A character of UTF-8 has at most four bytes. */
const MAX_TEXT_BYTES = MAX_MESSAGE_CHARACTERS * 4;
/** docs/contract/beats.md. */
export const BODY_TIME_MS = 30_000;

export interface ReadBody {
  bytes: Buffer;
  /** More than `limit` arrived: dropped from text, a 413 for JSON. */
  exceeded: boolean;
  /** The sender has not finished: the connection can't be used again. */
  unfinished: boolean;
}

/** Reads a JSON body and inflates it. Throws `payload_too_large`, `unsupported_media_type` or `validation_failed`. */
export async function readJsonText(
  request: IncomingMessage,
  timeMs: number,
): Promise<{ text: string; unfinished: boolean }> {
  const encoding = encodingOf(request);
  const { bytes, exceeded, unfinished } = await readUpTo(request, request, { bytes: MAX_JSON_BYTES, timeMs });
  if (exceeded) throw tooLarge();
  if (unfinished) throw invalidBody('The body took too long to arrive.', undefined);
  const plain = encoding === 'gzip' ? inflate(bytes) : bytes;
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(plain), unfinished };
  } catch (cause) {
    throw invalidBody('The JSON body is not UTF-8.', cause);
  }
}

/** Reads the first characters of a body of any other type; text that is not UTF-8 keeps its readable part. */
export async function readMessageText(
  request: IncomingMessage,
  timeMs: number,
): Promise<{ text: string; unfinished: boolean }> {
  if (encodingOf(request) !== 'gzip') {
    const { bytes, unfinished } = await readUpTo(request, request, { bytes: MAX_TEXT_BYTES, timeMs });
    return { text: bytes.toString('utf8'), unfinished };
  }
  const gunzip = createGunzip();
  request.pipe(gunzip);
  try {
    const { bytes, unfinished } = await readUpTo(request, gunzip, { bytes: MAX_TEXT_BYTES, timeMs });
    return { text: bytes.toString('utf8'), unfinished };
  } finally {
    request.unpipe(gunzip);
    gunzip.destroy();
    request.resume();
  }
}

function encodingOf(request: IncomingMessage): 'gzip' | 'identity' {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() || 'identity';
  if (encoding === 'gzip' || encoding === 'x-gzip') return 'gzip';
  if (encoding === 'identity') return encoding;
  throw new ProblemError('unsupported_media_type', {
    detail: 'Send the body plain, or with Content-Encoding: gzip.',
  });
}

function inflate(bytes: Buffer): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: MAX_JSON_BYTES });
  } catch (cause) {
    if ((cause as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge();
    throw invalidBody('The body is not gzip, but Content-Encoding says gzip.', cause);
  }
}

function tooLarge(): ProblemError {
  return new ProblemError('payload_too_large', {
    detail: `A JSON beat has at most ${MAX_JSON_BYTES} bytes, also after decompression.`,
  });
}

function invalidBody(message: string, cause: unknown): ProblemError {
  return new ProblemError('validation_failed', {
    detail: message,
    fieldErrors: [{ path: WHOLE_BODY, code: 'malformed_body', message }],
    cause,
  });
}

/**
 * Keeps the first `bytes` of `source` and drains `request` until it ends, its time is over or its bound is reached.
 * Rejects if the sender disconnects or the gzip is invalid.
 */
function readUpTo(
  request: IncomingMessage,
  source: Readable,
  { bytes: limit, timeMs }: { bytes: number; timeMs: number },
): Promise<ReadBody> {
  // The sender left while its address was looked up: no event comes any more.
  if (request.destroyed) return Promise.reject(disconnected());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let kept = 0;
    let drained = 0;
    let exceeded = false;
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      source.removeListener('data', keep);
      request.removeListener('data', count);
      finish();
    };
    const done = (unfinished: boolean) =>
      settle(() => resolve({ bytes: Buffer.concat(chunks), exceeded, unfinished }));
    const timer = setTimeout(() => done(true), timeMs);
    const keep = (chunk: Buffer) => {
      if (kept + chunk.length > limit) exceeded = true;
      if (kept < limit) chunks.push(chunk.subarray(0, limit - kept));
      kept = Math.min(limit, kept + chunk.length);
      // Enough is inflated: the rest of a bomb is never unpacked.
      if (exceeded && source !== request) {
        request.unpipe();
        request.resume();
      }
    };
    const count = (chunk: Buffer) => {
      drained += chunk.length;
      if (drained > MAX_DRAIN_BYTES) done(true);
    };
    source.on('data', keep);
    source.once('end', () => done(false));
    source.once('error', (cause: Error) =>
      settle(() => reject(invalidBody('The body could not be read.', cause))),
    );
    request.on('data', count);
    if (source !== request) {
      request.once('end', () => exceeded && done(false));
      request.once('error', () =>
        settle(() => reject(invalidBody('The body could not be read.', undefined))),
      );
    }
    request.once('close', () => {
      if (!request.complete) settle(() => reject(disconnected()));
    });
  });
}

function disconnected(): ProblemError {
  return invalidBody('The sender disconnected before the body was complete.', undefined);
}
