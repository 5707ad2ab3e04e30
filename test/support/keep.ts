// What a test opens, and what ends with it. The last thing opened ends first.
import { afterEach } from 'vitest';

/** Call it once in a file: the function that it returns keeps something until the end of the test, and returns it. */
export function keepForTest(): <T extends { close(): Promise<void> }>(opened: T) => T {
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });
  return (opened) => {
    closers.push(() => opened.close());
    return opened;
  };
}
