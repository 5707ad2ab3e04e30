// The command `secrets`: creates the Secrets that an installation cannot do without, where there are none. A Job of the
// chart runs it, because what a renderer makes, it makes anew at each render. It never reads, changes or deletes a
// Secret, and its account may not: it may run twice, in two processes at once, and again after it was killed.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { isAlreadyExists, isForbidden, isPassing } from '../kube/kube-error.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import type { Log } from '../telemetry/log.ts';
import type { Cluster } from './apply-manifests.ts';

interface SecretObject extends KubeObject {
  type: 'Opaque';
  stringData: Record<string, string>;
}

const SECRETS: KubeResource<SecretObject> = {
  apiVersion: 'v1',
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
};

const PAUSE_MS = 2_000;

export interface InstallationSecrets {
  namespace: string;
  /** Without a name there is nothing to create: the user has a Secret of their own. */
  encryptionSecret?: string | undefined;
  databaseSecret?: string | undefined;
  /** How long an API server that does not answer, or does not know the account's rights yet, is asked again. */
  waitSeconds: number;
}

/** Throws an Error that says what to do, if the API server refuses a Secret or does not answer in time. */
export async function createSecrets(cluster: Cluster, wanted: InstallationSecrets, log: Log): Promise<void> {
  const { namespace, encryptionSecret, databaseSecret, waitSeconds } = wanted;
  const deadline = performance.now() + waitSeconds * 1_000;
  const secrets = [
    // An id that was never used before: values that an older key has sealed are then reported by its name.
    { name: encryptionSecret, value: 'encryption.existingSecret', data: { keys: newKey() }, use: KEY_USE },
    { name: databaseSecret, value: 'postgresql.existingSecret', data: newPasswords(), use: PASSWORD_USE },
  ];
  for (const { name, value, data, use } of secrets) {
    if (name === undefined) continue;
    const secret = secretOf({ namespace, name }, data, use);
    try {
      const created = await retryUntil(deadline, log, () => createUnlessThere(cluster, secret));
      log.info({ name }, created ? 'Created the Secret.' : 'The Secret exists and stays as it is.');
    } catch (error) {
      const advice = `Create it yourself and name it in ${value}, or remove what the API server objects to.`;
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`The Secret ${namespace}/${name} could not be created: ${reason}. ${advice}`);
    }
  }
}

const KEY_USE = 'Nobody can read the secrets in the database of Beatkeeper without this key. Back it up.';
const PASSWORD_USE = 'The passwords of the two roles of the bundled Postgres.';

function newKey(): string {
  return `k${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}`;
}

// Letters and digits: a password is a part of a URL.
function newPasswords(): Record<string, string> {
  const password = () => randomBytes(24).toString('hex');
  return { 'owner-password': password(), 'application-password': password() };
}

/**
 * It carries no label of the release: Argo CD would take an object with it for a part of the application that Git lacks.
 * The annotations keep it where a tool takes it for one anyway.
 */
function secretOf(
  ref: { namespace: string; name: string },
  stringData: Record<string, string>,
  use: string,
): SecretObject {
  return {
    metadata: {
      ...ref,
      labels: { 'app.kubernetes.io/part-of': 'beatkeeper' },
      annotations: {
        'kubernetes.io/description': use,
        'helm.sh/resource-policy': 'keep',
        'argocd.argoproj.io/sync-options': 'Delete=false,Prune=false',
      },
    },
    type: 'Opaque',
    stringData,
  };
}

/** Returns false where a Secret of that name exists, whatever it holds: also one of an attempt whose answer was lost. */
async function createUnlessThere({ client }: Cluster, secret: SecretObject): Promise<boolean> {
  try {
    await client.create(SECRETS, secret);
    return true;
  } catch (error) {
    if (isAlreadyExists(error)) return false;
    throw error;
  }
}

/** The rights of a new account may reach the API server later than its pod. */
async function retryUntil<T>(deadline: number, log: Log, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const mayPass = isPassing(error) || isForbidden(error);
      if (!mayPass || performance.now() > deadline) throw error;
      log.warn({ err: error }, 'The API server does not take the Secret yet; trying again.');
      await delay(PAUSE_MS);
    }
  }
}
