// One thing ahead: the next one is made while the last one is used.

/** What a generator yields. Its next thing is under way when one is yielded, and no further one. */
export async function* readAhead<Thing>(source: AsyncGenerator<Thing, void>): AsyncGenerator<Thing, void> {
  let next = begin(source);
  try {
    for (;;) {
      const { done, value } = await next;
      if (done) return;
      next = begin(source);
      yield value;
    }
  } finally {
    // It ends when what it makes now is made. Nobody waits for that, nor asks whether it fails.
    source.return().catch(() => undefined);
  }
}

/** A failure is thrown where the result is awaited, which may be later, or never. */
function begin<Thing>(source: AsyncGenerator<Thing, void>): Promise<IteratorResult<Thing, void>> {
  const next = source.next();
  next.catch(() => undefined);
  return next;
}
