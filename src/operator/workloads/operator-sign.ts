// Who beats the monitors of CronJobs: the name of this operator at the API, and its signs of life. While it gives none, the API
// judges none of them (docs/contract/deadlines.md, "While no operator leads").
import { setTimeout as delay } from 'node:timers/promises';
import type { RestClient } from '../../client/rest-client.ts';
import type { OperationRequest } from '../../contract/operations/operations.ts';
import { MAX_BEHIND, operatorId as validId } from '../../contract/resources/operator.ts';
import type { KubeClient } from '../../kube/kube-client.ts';
import { isForbidden, KubeError } from '../../kube/kube-error.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { KubeObject, KubeResource, ObjectRef } from '../../kube/kube-object.ts';
import { NAMESPACES } from '../resources/core-resources.ts';

const LEASES: KubeResource = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};

export interface OperatorNameOptions {
  kube: KubeClient;
  /** `<namespace>/<fullname>`. */
  release: string;
  isClusterWide: boolean;
  /** Of the operator itself. Undefined: it has none. */
  lease: ObjectRef | undefined;
}

/** `<release>@<UID>`: the same for each replica, and another one in another cluster. */
export class OperatorName {
  readonly #options: OperatorNameOptions;
  #id: Promise<string> | undefined;

  constructor(options: OperatorNameOptions) {
    this.#options = options;
  }

  /** Throws KubeError while the cluster does not answer. */
  async id(): Promise<string> {
    this.#id ??= this.#find();
    try {
      return await this.#id;
    } catch (error) {
      this.#id = undefined;
      throw error;
    }
  }

  async #find(): Promise<string> {
    const { release } = this.#options;
    const id = `${release}@${await this.#clusterUid()}`;
    return validId.safeParse(id).success ? id : encodeURIComponent(id).replaceAll('%', '_');
  }

  /**
   * Of the namespace that each cluster has; where namespaces may not be read, of the operator's own Lease. Where neither can be
   * read it has no name: another cluster's operator would sign for its monitors, and it for theirs.
   */
  async #clusterUid(): Promise<string> {
    const { kube, isClusterWide, lease } = this.#options;
    const place = isClusterWide
      ? await readUid(() => kube.find(NAMESPACES, { name: 'kube-system' }))
      : undefined;
    const uid = place ?? (lease && (await readUid(() => kube.find(LEASES, lease))));
    if (uid !== undefined) return uid;
    const what = lease === undefined ? 'its Lease' : `its Lease ${lease.namespace}/${lease.name}`;
    const message = `The operator cannot tell this cluster from others, so it beats no monitors: give it the right to get ${what}, or the namespace kube-system.`;
    throw new KubeError(message, { status: 403, reason: 'Forbidden' });
  }
}

/** Undefined: there is none, or it may not be read. */
async function readUid(read: () => Promise<KubeObject | undefined>): Promise<string | undefined> {
  try {
    return (await read())?.metadata.uid;
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
}

/** What a sign leaves out: all Monitors of a project, or one of them. */
export type LeftOut = NonNullable<OperationRequest<'signOperator'>['body']['behind']>[number];

export interface OperatorSignOptions {
  api: RestClient;
  log: KubeLog;
  name: OperatorName;
  /** What was not seen, or not told yet. Undefined: no sign now. */
  findBehind(): Promise<readonly LeftOut[] | undefined>;
  /** Resolves soon with whether a sign may be given, and never rejects. */
  whenReady(): Promise<boolean>;
}

const PERIOD_MS = 5000;

/** Signs while it leads. */
export class OperatorSign {
  readonly #options: OperatorSignOptions;
  readonly #abort = new AbortController();
  #ended: Promise<void> | undefined;

  constructor(options: OperatorSignOptions) {
    this.#options = options;
  }

  start(): void {
    this.#ended ??= this.#run();
  }

  /** An operator that ends says nothing: its silence is its end. */
  async stop(): Promise<void> {
    this.#abort.abort(new Error('The operator ends.'));
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    const { log } = this.#options;
    while (!signal.aborted) {
      try {
        await this.#sign(signal);
      } catch (error) {
        if (!signal.aborted)
          log.debug({ err: error }, 'Could not give a sign of life; the next one may come through.');
      }
      await delay(PERIOD_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #sign(signal: AbortSignal): Promise<void> {
    const { api, name, findBehind, whenReady } = this.#options;
    const operatorId = await name.id();
    if (!(await whenReady())) return;
    const behind = await findBehind();
    if (behind === undefined || behind.length > MAX_BEHIND) return;
    const body = behind.length === 0 ? {} : { behind: [...behind] };
    await api.call('signOperator', { params: { operatorId }, body }, { signal, timeoutMs: PERIOD_MS });
  }
}
