// A stream that its reader cannot keep: it breaks off when its caller may not call any more, or does not take what is sent.
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

export interface StreamLimits {
  /** From one check to the next. */
  checkMs: number;
  /** So long a reader may need for one piece. */
  pieceMs: number;
}

/** A revoked credential ends within five seconds: what is known of one is four seconds old at most. */
const LIMITS: StreamLimits = { checkMs: 1_000, pieceMs: 60_000 };

/**
 * The pieces as a stream, which reads the next one when its reader has taken the last one. `requireAdmitted` throws when
 * the caller may not call any more. A stream that breaks off closes at once, also where nobody reads.
 */
export function watchedStream(
  pieces: AsyncIterable<string | Buffer>,
  requireAdmitted: () => Promise<void>,
  { checkMs, pieceMs }: StreamLimits = LIMITS,
): Readable {
  /** Since then the reader has a piece to take. */
  let offeredAt: number | undefined;
  const offered = async function* () {
    for await (const piece of pieces) {
      offeredAt = performance.now();
      yield piece;
      offeredAt = undefined;
    }
    offeredAt = performance.now();
  };
  const closed = new AbortController();
  const stream = Readable.from(offered()).once('close', () => closed.abort());
  const watch = async () => {
    for (;;) {
      await delay(checkMs, undefined, { signal: closed.signal });
      await requireAdmitted();
      if (offeredAt !== undefined && performance.now() - offeredAt > pieceMs)
        throw new Error('The reader of the stream is too slow.');
    }
  };
  // It is closed already where the wait ends for that.
  watch().catch((error: Error) => stream.destroy(error));
  return stream;
}
