// Splits a stream of bytes into lines of UTF-8 text. A line is bounded, so that a broken peer cannot fill memory.

/** etcd holds objects of 1.5 MiB by default; a watch event has one of them, escaped. */
const maxLineLength = 16 * 1024 * 1024;

/** Lines without their newline; empty ones, and a last one without newline, are left out. */
export async function* splitLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > maxLineLength) throw new RangeError('A line of the answer is too long.');
    for (const line of lines) {
      if (line.trim() !== '') yield line;
    }
  }
}
