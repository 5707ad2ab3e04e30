// Time in which this process ran: for the few limits of the specification that a test has to measure. A machine that
// is busy, or that stood still for some seconds, must not look like a product that is late.

const TICK_MS = 20;
/** A tick that comes later than this came to a process that was not run. */
const LATE_MS = 5 * TICK_MS;

export interface Stopwatch {
  /** Milliseconds since the start, without those in which this process got no turn. */
  stop(): number;
}

/** Starts to measure. Call `stop` in the end: it runs until then. */
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
