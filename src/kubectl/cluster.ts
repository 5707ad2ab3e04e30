// The cluster of a command: its client, the namespace, and the reads and writes that commands share, refused in words.
import type { KubeConfig } from '@kubernetes/client-node';
import { KubeClient } from '../kube/kube-client.ts';
import { KubeTransport } from '../kube/kube-transport.ts';
import { type ApiExtension, type KubeconfigChoice, loadContext } from './kubeconfig.ts';
import { MONITORS, type MonitorObject } from './objects.ts';
import { attempt } from './refusal.ts';

/** The owner of the fields that commands set in objects. */
const FIELD_MANAGER = 'kubectl-beat';

export interface ClusterChoice extends KubeconfigChoice {
  /** --namespace. */
  namespace?: string;
}

export class Cluster {
  readonly client: KubeClient;
  readonly transport: KubeTransport;
  readonly config: KubeConfig;
  readonly namespace: string;
  readonly api: ApiExtension;

  /** Throws a Refusal if there is no such kubeconfig or context. */
  constructor({ namespace, ...choice }: ClusterChoice) {
    const context = loadContext(choice);
    this.config = context.config;
    this.namespace = namespace ?? context.namespace;
    this.api = context.api;
    // After a 401 it is loaded again: a credential of a file may have been renewed.
    let config: KubeConfig | undefined = context.config;
    const loadConfig = () => {
      const known = config ?? loadContext(choice).config;
      config = undefined;
      return known;
    };
    this.transport = new KubeTransport({
      loadConfig,
      userAgent: `${FIELD_MANAGER}/1`,
      requestTimeoutMs: 30_000,
    });
    this.client = new KubeClient(this.transport);
  }

  async close(): Promise<void> {
    await this.transport.close();
  }

  /** Throws a Refusal if there is no such Monitor. */
  async readMonitor(name: string): Promise<MonitorObject> {
    const { namespace } = this;
    const attempted = {
      what: `read the Monitor ${name} in the namespace ${namespace}`,
      notFound: `There is no Monitor ${name} in the namespace ${namespace}: \`kubectl beat status -n ${namespace}\` lists them.`,
    };
    return await attempt(attempted, () => this.client.get(MONITORS, { namespace, name }));
  }

  /** Of all namespaces if `isEverywhere`. */
  async listMonitors(isEverywhere: boolean): Promise<MonitorObject[]> {
    const namespace = isEverywhere ? undefined : this.namespace;
    const where = namespace === undefined ? 'of all namespaces' : `in the namespace ${namespace}`;
    return await attempt({ what: `list the Monitors ${where}` }, async () => {
      const monitors: MonitorObject[] = [];
      for await (const monitor of this.client.listAll(
        MONITORS,
        namespace === undefined ? {} : { namespace },
      )) {
        monitors.push(monitor);
      }
      return monitors;
    });
  }

  async patchMonitor({ metadata }: MonitorObject, spec: object): Promise<MonitorObject> {
    const { name, uid } = metadata;
    const ref = { namespace: metadata.namespace ?? this.namespace, name };
    // The uid holds the change to the object that was read: one that was made again meanwhile is another one.
    const patch = { metadata: { uid }, spec };
    const attempted = { what: `change the Monitor ${name} in the namespace ${ref.namespace}` };
    return await attempt(attempted, () =>
      this.client.mergePatch(MONITORS, ref, patch, { fieldManager: FIELD_MANAGER }),
    );
  }
}
