// After the event loop has stood still, timers fire before the answers that have arrived meanwhile are read. Whoever
// judges by a time limit reads them first.

/** Runs `judge` after two turns of the event loop: what waits in sockets is read by then, and its callbacks have run. */
export function afterReading(judge: () => void): void {
  setImmediate(() => setImmediate(judge));
}
