// Reads the body of a beat in bounded memory. Of text the last characters are kept, because the error is at the end of an
// output, and the rest is dropped, so that a job that posts its whole output does not lose its beat; JSON is read up to
// its limit.
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip, gunzipSync } from 'node:zlib';
import { MAX_MESSAGE_CHARACTERS } from '../domain/beat-input.ts';
import { ProblemError, WHOLE_BODY } from '../domain/problem.ts';

/** After inflation (docs/contract/calls.md). */
const MAX_JSON_BYTES = 16_384;
/** On the wire: bytes that can't be compressed grow a little, and gzip has a header. */
const MAX_ZIPPED_JSON_BYTES = 2 * MAX_JSON_BYTES;
/** The most bytes read of a long body; past it the connection is closed after the answer. */
const MAX_DRAIN_BYTES = 10 * 1024 * 1024;
/** The most bytes unpacked of a text: a sender pays a thousandth of them, and the processor all. */
const MAX_UNPACKED_BYTES = 1024 * 1024;
/** Unpacked at once: each time costs a round through the threads of the process. */
const UNPACKED_AT_ONCE_BYTES = 64 * 1024;
/** A character of UTF-8 has at most four bytes. */
const MAX_TEXT_BYTES = MAX_MESSAGE_CHARACTERS * 4;
/** docs/contract/beats.md. */
export const BODY_TIME_MS = 30_000;

interface BodyText {
  text: string;
  /** The sender has not finished: the connection can't be used again. */
  unfinished: boolean;
}

/** Reads a JSON body and inflates it. Throws `payload_too_large`, `unsupported_media_type` or `validation_failed`. */
export async function readJsonText(request: IncomingMessage, timeMs: number): Promise<BodyText> {
  const isZipped = encodingOf(request) === 'gzip';
  const limit = isZipped ? MAX_ZIPPED_JSON_BYTES : MAX_JSON_BYTES;
  const chunks: Buffer[] = [];
  let size = 0;
  const take = (chunk: Buffer) => {
    size += chunk.length;
    if (size <= limit) chunks.push(chunk);
    return size <= limit;
  };
  const unfinished = await drain(request, request, { take, timeMs });
  if (size > limit) throw tooLarge();
  if (unfinished)
    throw invalidBody(
      isCut(request)
        ? 'The body comes in too many small chunks: send it in larger ones.'
        : 'The body took too long to arrive.',
      undefined,
    );
  const bytes = Buffer.concat(chunks);
  const plain = isZipped ? inflate(bytes) : bytes;
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(plain), unfinished };
  } catch (cause) {
    throw invalidBody('The JSON body is not UTF-8.', cause);
  }
}

/** Reads the end of a body of any other type; text that is not UTF-8 keeps its readable part. */
export async function readMessageText(request: IncomingMessage, timeMs: number): Promise<BodyText> {
  const isZipped = encodingOf(request) === 'gzip';
  const limit = isZipped ? MAX_UNPACKED_BYTES : MAX_DRAIN_BYTES;
  const tail = new TextTail();
  let size = 0;
  const take = (chunk: Buffer) => {
    tail.add(chunk.subarray(0, limit - size));
    size += chunk.length;
    return size < limit;
  };
  if (!isZipped) {
    const unfinished = await drain(request, request, { take, timeMs });
    return { text: tail.text, unfinished };
  }
  const gunzip = createGunzip({ chunkSize: UNPACKED_AT_ONCE_BYTES });
  request.pipe(gunzip);
  try {
    const unfinished = await drain(request, gunzip, { take, timeMs });
    return { text: tail.text, unfinished };
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

/** The last bytes of a text, in a buffer of fixed size: whoever sends single bytes costs no more than others. */
export class TextTail {
  readonly #buffer = Buffer.allocUnsafe(2 * MAX_TEXT_BYTES);
  #length = 0;

  add(chunk: Buffer): void {
    const last = chunk.subarray(-MAX_TEXT_BYTES);
    if (this.#length + last.length > this.#buffer.length) {
      this.#buffer.copyWithin(0, this.#length - MAX_TEXT_BYTES, this.#length);
      this.#length = MAX_TEXT_BYTES;
    }
    this.#length += last.copy(this.#buffer, this.#length);
  }

  /**
   * Ends with the last characters of the text that was added. What is left of a character at the cut is up to three U+FFFD
   * too many at the beginning, before as many characters as a message has.
   */
  get text(): string {
    return this.#buffer.toString('utf8', Math.max(0, this.#length - MAX_TEXT_BYTES), this.#length);
  }
}

interface Reading {
  /** Takes a chunk. False: it wants no more. */
  take: (chunk: Buffer) => boolean;
  timeMs: number;
}

/**
 * Gives `source` to `take`, and drains `request` until it ends, its time is over or its bound is reached. The answer: the
 * sender has not finished, and the connection can't be used again; so it is where the request ends and is not complete,
 * because the server reads no more of it. Rejects if the sender disconnects or the gzip is invalid.
 */
function drain(request: IncomingMessage, source: Readable, { take, timeMs }: Reading): Promise<boolean> {
  // The sender left while its address was looked up: no event comes any more.
  if (request.destroyed) return Promise.reject(disconnected());
  return new Promise((resolve, reject) => {
    let drained = 0;
    let isFull = false;
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      source.removeListener('data', keep);
      request.removeListener('data', count);
      finish();
    };
    const done = (unfinished: boolean) => settle(() => resolve(unfinished));
    const end = () => done(!request.complete);
    const fail = (cause?: Error) => settle(() => reject(invalidBody('The body could not be read.', cause)));
    const timer = setTimeout(() => done(true), timeMs);
    const keep = (chunk: Buffer) => {
      if (isFull || take(chunk)) return;
      isFull = true;
      if (source === request) return;
      // Without its source alone it would unpack what it has: all of a bomb.
      request.unpipe();
      source.destroy();
      if (request.readableEnded) end();
      else request.resume();
    };
    const count = (chunk: Buffer) => {
      drained += chunk.length;
      if (drained > MAX_DRAIN_BYTES) done(true);
    };
    source.on('data', keep);
    source.once('end', end);
    source.once('error', (cause) => (isCut(request) ? end() : fail(cause)));
    request.on('data', count);
    if (source !== request) {
      request.once('end', () => isFull && end());
      request.once('error', () => fail());
    }
    request.once('close', () => {
      if (!request.complete && !isCut(request)) settle(() => reject(disconnected()));
    });
  });
}

function isCut({ readableEnded, complete }: IncomingMessage): boolean {
  return readableEnded && !complete;
}

function disconnected(): ProblemError {
  return invalidBody('The sender disconnected before the body was complete.', undefined);
}
