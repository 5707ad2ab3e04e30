// Measures the time in which this process ran, for the few limits of the contract that a test must measure. A machine that
// is busy, or stops for some seconds, must not look like a late product.

const TICK_MS = 20;
/** A tick that is later than this shows that the process did not run, or had to share its core with many others. */
const LATE_MS = 2 * TICK_MS;

export interface Stopwatch {
  /** Milliseconds since the start, without those in which the process did not run. */
  stop(): number;
}

/** Call `stop` in the end: the stopwatch keeps the process alive until then. */
export function startStopwatch(): Stopwatch {
  let ranMs = 0;
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    ranMs += now - last > LATE_MS ? TICK_MS : now - last;
    last = now;
  };
  const timer = setInterval(tick, TICK_MS);
  return {
    stop() {
      clearInterval(timer);
      tick();
      return ranMs;
    },
  };
}
