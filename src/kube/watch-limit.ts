// The end of a watch that its server does not end: a part of the reflector.

/** Ends a watch on `stop`, and when its connection seems dead: it is silent, or outlives the server's own time limit. */
export class WatchLimit {
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #silence: NodeJS.Timeout;
  isOver = false;

  constructor(outer: AbortSignal, { limitMs, silenceMs }: { limitMs: number; silenceMs: number }) {
    this.#outer = outer;
    if (outer.aborted) this.#stop();
    outer.addEventListener('abort', this.#stop, { once: true });
    this.#timer = setTimeout(this.#end, limitMs);
    this.#silence = setTimeout(this.#end, silenceMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The connection lives: its silence begins again. */
  heard(): void {
    this.#silence.refresh();
  }

  end(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#outer.removeEventListener('abort', this.#stop);
  }

  readonly #end = (): void => {
    this.isOver = true;
    this.#stop();
  };

  readonly #stop = (): void => this.#abort.abort();
}
