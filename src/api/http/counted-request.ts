// A request whose body may come in very small pieces, as a chunk of one byte is one. Each costs the processor as much as
// thousands of bytes and the memory hundreds, so they are counted, and kept joined.
import { IncomingMessage } from 'node:http';
import type { ReadingTurns } from './reading-turns.ts';

/** A body in more pieces, of fewer bytes each, is not read any further (docs/contract/beats.md). */
const MAX_PIECES = 16_384;
const BYTES_EACH = 64;
/** The first ones of a body are handed on as they come. */
const FREE_PIECES = 16;
/** Smaller ones are joined to so many bytes, or to those of so long. */
const BLOCK_BYTES = 1_024;
const BLOCK_MS = 50;

/** The stream of a body that is not read any further ends with what was read. `complete` is false then. */
export class CountedRequest extends IncomingMessage {
  turns: ReadingTurns | undefined;
  /** Called when the body is whole, before anybody can have read its end. `isReadOn`: so is the connection. */
  onWhole: ((connection: { isReadOn: boolean }) => void) | undefined;
  #pieces = 0;
  #bytes = 0;
  #block: Buffer | undefined;
  #length = 0;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #isCut = false;

  /** Node calls it with each piece of the body, and with null at its end. False: nobody reads, so more must wait. */
  override push(piece: Buffer | null): boolean {
    if (this.#isCut) {
      this.complete = false;
      return false;
    }
    if (piece === null) {
      this.#pushEnd();
      this.onWhole?.({ isReadOn: !this.#isStopped });
      return false;
    }
    this.#pieces += 1;
    this.#bytes += piece.length;
    this.turns?.countPiece(this.socket, piece.length);
    if (!this.#isStopped && this.#isCrumbled) this.#stop();
    if (this.#pieces > FREE_PIECES && piece.length < BLOCK_BYTES) return this.#join(piece);
    this.#pushBlock();
    return this.#pushOn(piece);
  }

  /** Somebody reads. */
  override _read(size: number): void {
    this.turns?.unhold(this.socket);
    super._read(size);
  }

  /** Node would destroy the connection with a stream that ended before its body, and the answer is to come. */
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#isCut && this.readableEnded) done(error);
    else super._destroy(error, done);
  }

  get #isCrumbled(): boolean {
    return this.#pieces > MAX_PIECES && this.#pieces * BYTES_EACH > this.#bytes;
  }

  #stop(): void {
    this.#isStopped = true;
    this.turns?.stop(this.socket);
    // What was read at once is still to come, and may have the end.
    setImmediate(() => {
      if (this.complete || this.destroyed) return;
      this.#pushEnd();
      this.#isCut = true;
    });
  }

  #pushEnd(): void {
    clearTimeout(this.#timer);
    this.#pushBlock();
    this.turns?.unhold(this.socket);
    super.push(null);
  }

  #join(piece: Buffer): boolean {
    const goesOn = this.#length + piece.length <= BLOCK_BYTES || this.#pushBlock();
    // Of its own memory: a part of a pool would keep all of the pool.
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES);
    this.#length += piece.copy(this.#block, this.#length);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (!this.#pushBlock()) this.socket.pause();
    }, BLOCK_MS);
    return goesOn;
  }

  #pushBlock(): boolean {
    if (!this.#block || this.#length === 0 || this.destroyed) return true;
    const bytes = Buffer.allocUnsafeSlow(this.#length);
    this.#block.copy(bytes);
    this.#length = 0;
    return this.#pushOn(bytes);
  }

  #pushOn(piece: Buffer): boolean {
    const goesOn = super.push(piece);
    if (!goesOn) this.turns?.hold(this.socket);
    return goesOn;
  }
}
