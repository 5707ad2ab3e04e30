// The startup probe of a pod: ends well when the process beside it is ready, or lives but is not ready after as many
// seconds as the argument says. It waits, because the kubelet writes a Warning for each probe that fails, and a process
// that starts for some seconds has no fault. It imports no other file, so that it costs little.
import { setTimeout as delay } from 'node:timers/promises';

const PAUSE_MS = 200;
/** As long as the kubelet waits for the answer of the other probes. */
const ANSWER_MS = 2_000;

const home = `http://127.0.0.1:${process.env.BEATKEEPER_HEALTH_PORT}`;
const untilMs = performance.now() + Number(process.argv[2]) * 1_000;

async function isOk(path: string): Promise<boolean> {
  try {
    const answer = await fetch(home + path, { signal: AbortSignal.timeout(ANSWER_MS) });
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

let isReady = await isOk('/readyz');
while (!isReady && performance.now() < untilMs) {
  await delay(PAUSE_MS);
  isReady = await isOk('/readyz');
}
if (!isReady && !(await isOk('/livez'))) {
  process.stderr.write(`${home}/livez does not answer with 200.\n`);
  process.exitCode = 1;
}
