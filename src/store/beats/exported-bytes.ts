// The bytes of an export's lines, from the texts that Postgres gives. Of each line most is the same as in the one before: it is
// neither sent by Postgres nor decoded and encoded again.

/** Rows of a monitor. */
export interface MonitorRows {
  /** What each of its lines begins with. */
  head: string;
  /** A row a line, and its parts with a tab between them. */
  text: string;
  lines: number;
}

export interface LineText {
  /** The lines of some monitors, one monitor after the other. */
  of: (monitors: readonly MonitorRows[]) => Buffer;
  /** A line has so many bytes more than its head and its row together, or fewer. */
  addedBytes: number;
}

/** What is in a cell that Postgres has sent as JSON. */
export const json = (text: string): string => JSON.parse(text);

/** Lines that Postgres has made, but for their heads and ends. */
export function lines(end: string): LineText {
  const linesOf = ({ head, text }: MonitorRows) => text.split('\n').map((row) => `${head}${row}${end}`);
  return {
    of: (monitors) => Buffer.from(monitors.flatMap(linesOf).join('')),
    addedBytes: Buffer.byteLength(end),
  };
}

export interface ObservationForm {
  /** Before the sequence, the kind and the time of reception. */
  names: readonly [string, string, string];
  /** The rest of a line whose row has no details. */
  plain: string;
  /** Before and after the details of others. */
  detailed: readonly [string, string];
  /** Makes details from what Postgres has sent. */
  read?: (details: string) => string;
}

const TAB = 0x09;
const DOT = 0x2e;
const ZERO = 0x30;
const T = 0x54;
const Z = 0x5a;
/** Of `2026-11-23 18:40:34`, after which there may be a fraction. */
const SECOND_LENGTH = 19;
/** Where its day ends. */
const DAY_LENGTH = 10;
/** `2026-11-23T18:40:34.000Z` has so many more than `2026-11-23 18:40:34+00`. */
const ADDED_TO_TIME = 2;

/** Rows of observations: sequence, kind, time of reception as Postgres writes it in UTC, and details where there are any. */
export function observationLines({ names, plain, detailed, read = same }: ObservationForm): LineText {
  const [sequenceName, ...others] = names;
  const [kindName, timeName] = others.map(bytesOf) as [Buffer, Buffer];
  const [plainEnd, start, end] = [plain, ...detailed].map(bytesOf) as [Buffer, Buffer, Buffer];
  const longestEnd = Math.max(plainEnd.length, start.length + end.length);
  const addedBytes = Buffer.byteLength(names.join('')) + ADDED_TO_TIME + longestEnd;
  const of = (monitors: readonly MonitorRows[]) => {
    const heads = monitors.map(({ head }) => Buffer.from(`${head}${sequenceName}`));
    const rowBytes = ({ head, lines, text }: MonitorRows) =>
      lines * (Buffer.byteLength(head) + addedBytes) + Buffer.byteLength(text);
    const writer = new LineWriter(monitors.reduce((sum, one) => sum + rowBytes(one), 0));
    for (const [place, { text }] of monitors.entries()) {
      const head = heads[place] ?? NONE;
      for (let at = 0; at < text.length; ) {
        const next = text.indexOf('\n', at);
        const rowEnd = next < 0 ? text.length : next;
        writer.bytes(head);
        at = writer.part(text, at);
        writer.bytes(kindName);
        at = writer.part(text, at);
        writer.bytes(timeName);
        at = writer.time(text, at, rowEnd);
        if (at >= rowEnd) writer.bytes(plainEnd);
        else {
          writer.bytes(start);
          writer.text(read(text.slice(at + 1, rowEnd)));
          writer.bytes(end);
        }
        at = rowEnd + 1;
      }
    }
    return writer.written();
  };
  return { of, addedBytes };
}

const NONE = Buffer.alloc(0);
const bytesOf = (text: string) => Buffer.from(text);
const same = (text: string) => text;

class LineWriter {
  readonly #out: Buffer;
  #at = 0;

  constructor(size: number) {
    // Node collects its garbage more often the larger its buffers are, whatever is written into them.
    this.#out = Buffer.allocUnsafeSlow(size);
  }

  bytes(bytes: Buffer): void {
    bytes.copy(this.#out, this.#at);
    this.#at += bytes.length;
  }

  text(text: string): void {
    this.#at += this.#out.write(text, this.#at);
  }

  /** A part without other signs than those of ASCII. Returns where the next one begins. */
  part(text: string, from: number): number {
    let at = from;
    for (let code = text.charCodeAt(at); code !== TAB; code = text.charCodeAt(at)) {
      if (at >= text.length) throw new RangeError('A row of the export has a part too few.');
      this.#out[this.#at++] = code;
      at += 1;
    }
    return at + 1;
  }

  /** Postgres' `2026-11-23 18:40:34.12+00` as `2026-11-23T18:40:34.120Z`. Returns where the part ends. */
  time(text: string, from: number, rowEnd: number): number {
    const out = this.#out;
    const start = this.#at;
    for (let place = 0; place < SECOND_LENGTH; place += 1) out[start + place] = text.charCodeAt(from + place);
    out[start + DAY_LENGTH] = T;
    let at = from + SECOND_LENGTH;
    let end = start + SECOND_LENGTH;
    out[end++] = DOT;
    if (text.charCodeAt(at) === DOT) at += 1;
    for (let digits = 0; digits < 3; digits += 1) {
      const code = text.charCodeAt(at);
      const isDigit = code >= ZERO;
      out[end++] = isDigit ? code : ZERO;
      if (isDigit) at += 1;
    }
    out[end++] = Z;
    this.#at = end;
    const next = text.indexOf('\t', at);
    return next < 0 || next > rowEnd ? rowEnd : next;
  }

  written(): Buffer {
    if (this.#at > this.#out.length) throw new RangeError('Lines of the export are longer than their bound.');
    return this.#out.subarray(0, this.#at);
  }
}
