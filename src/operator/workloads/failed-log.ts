// The end of the log of a failed container, for the message of its beat. A log that cannot be read holds up nothing.
import type { KubeClient } from '../../kube/kube-client.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { FailedContainer } from './job-state.ts';

/** What a beat's message has room for. */
const MAX_MESSAGE = 1024;

export async function withLog(
  { kube, log }: { kube: KubeClient; log: KubeLog },
  message: string,
  { namespace, failed, patienceMs }: { namespace: string; failed: FailedContainer; patienceMs: number },
): Promise<string> {
  const { pod: name, container, isRestarted: previous } = failed;
  const room = MAX_MESSAGE - message.length - 1;
  if (room <= 0) return message;
  try {
    const signal = AbortSignal.timeout(Math.ceil(patienceMs));
    const text = await kube.podLog({ namespace, name }, { container, previous, tailLines: 50, signal });
    // The API takes no NUL, and half a character is none.
    const end = text.replaceAll('\0', '').trimEnd().slice(-room).toWellFormed();
    return end === '' ? message : `${message}\n${end}`;
  } catch (error) {
    log.debug({ err: error, namespace, name, container }, 'Cannot read the log of a failed container.');
    return message;
  }
}
