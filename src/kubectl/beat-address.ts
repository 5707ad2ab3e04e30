// Where a beat goes: where the publish address leads. A name of the cluster's own (`….svc`), which is the default of an
// installation, leads nowhere from outside: then through a forwarded port of the release's own Service, or to the address
// that the context names.
import type { Cluster } from './cluster.ts';
import { forwardService } from './port-forward.ts';
import { Refusal } from './refusal.ts';
import { apiServiceOf, type Release } from './release.ts';

export interface BeatAddress {
  url: string;
  isTunnel: boolean;
  fault(): string | undefined;
  close(): Promise<void>;
}

/**
 * Throws a Refusal for an address that leads to another Service than that of the release: whoever may write the Secret would
 * choose what the caller's rights open a port to.
 */
export async function openBeatAddress(
  cluster: Cluster,
  publishUrl: string,
  findRelease: () => Release,
): Promise<BeatAddress> {
  const { hostname, pathname } = new URL(publishUrl);
  const direct = { isTunnel: false, fault: () => undefined, close: async () => undefined };
  const service = serviceOf(hostname);
  if (service === undefined) return { url: publishUrl, ...direct };
  if (cluster.api.url !== undefined)
    return { url: `${cluster.api.url.replace(/\/+$/, '')}${pathname}`, ...direct };
  const release = findRelease();
  const own = apiServiceOf(release);
  if (service.name !== own.name || service.namespace !== own.namespace) {
    throw new Refusal(
      `The publish address leads to the Service ${service.name} in the namespace ${service.namespace}, which is not that of the release ${release.namespace}/${release.name}: state the right one with --release <namespace>/<name>, or correct the Secret.`,
    );
  }
  const forward = await forwardService(cluster, own);
  const url = `${forward.isTls ? 'https' : 'http'}://127.0.0.1:${forward.port}${pathname}`;
  return { url, isTunnel: true, fault: forward.fault, close: forward.close };
}

/** Of `<name>.<namespace>.svc`, with or without the domain of the cluster. */
function serviceOf(hostname: string): { name: string; namespace: string } | undefined {
  const [name, namespace, kind] = hostname.split('.');
  if (kind !== 'svc' || name === undefined || namespace === undefined) return undefined;
  return { name, namespace };
}
