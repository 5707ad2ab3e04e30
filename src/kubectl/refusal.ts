// Why a command did not do what it was asked: one sentence that says what to do, and the exit code of all refusals. No
// sentence shows a token or a publish address.
import { KubeError } from '../kube/kube-error.ts';

/** `status` exits 1 when a monitor is down, so errors exit above it. */
export const REFUSED = 2;

export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** What a call to the cluster was about, for its refusal. */
export interface Attempt {
  /** Such as `read the Monitor nightly-backup in the namespace payments`. */
  what: string;
  /** The sentence for a 404; default: the cluster's own. */
  notFound?: string;
}

/** Runs a call to the cluster and throws a Refusal for what it throws. */
export async function attempt<T>({ what, notFound }: Attempt, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw refusalOf(error, what, notFound);
  }
}

function refusalOf(error: unknown, what: string, notFound: string | undefined): unknown {
  if (!(error instanceof KubeError)) return error;
  const { status, message } = error;
  if (status === 0) {
    return new Refusal(
      `The cluster does not answer, so kubectl beat cannot ${what}: check your network and the context (${message}).`,
    );
  }
  if (status === 401) {
    return new Refusal(
      'The cluster does not accept your credentials: sign in again, or use another context.',
    );
  }
  if (status === 403) {
    return new Refusal(`You may not ${what}: ask whoever runs the cluster for the right (${message}).`);
  }
  if (status === 404 && notFound !== undefined) return new Refusal(notFound);
  if (status === 404 && error.details?.name === undefined) {
    return new Refusal(
      `The cluster has no Beatkeeper, so kubectl beat cannot ${what}: install it, or use another context.`,
    );
  }
  return new Refusal(`The cluster refuses to ${what}: ${message}`);
}
