// `kubectl beat url`: the publish address, from the Secret. The only command that prints one.

import type { Cluster } from '../cluster.ts';
import type { Command } from '../command.ts';
import { conditionOf, type MonitorObject, SECRETS } from '../objects.ts';
import { attempt, Refusal } from '../refusal.ts';

export const URL_OF: Command = {
  name: 'url',
  operands: ['<monitor>'],
  summary: 'the publish address, from the Secret',
  details: 'Whoever has the address can send beats: it is a secret.',
  options: [],
  async run({ cluster, operands: [name = ''] }) {
    const url = await readPublishUrl(cluster, await cluster.readMonitor(name));
    return { json: { namespace: cluster.namespace, name, url }, text: url };
  },
};

/** Throws a Refusal if there is no Secret, no right to read it, or if it belongs to something else. */
export async function readPublishUrl({ client }: Cluster, monitor: MonitorObject): Promise<string> {
  const { name, namespace = '', uid } = monitor.metadata;
  const secretName = monitor.status?.publishSecretRef?.name;
  if (secretName === undefined) {
    const why = conditionOf(monitor, 'Ready')?.message ?? 'no operator has looked at it yet';
    throw new Refusal(`The Monitor ${name} has no publish address yet: ${why}`);
  }
  const secret = await attempt(
    {
      what: `read the Secret ${secretName} in the namespace ${namespace}`,
      notFound: `There is no Secret ${secretName} in the namespace ${namespace}: wait a minute, the operator makes it again.`,
    },
    () => client.get(SECRETS, { namespace, name: secretName }),
  );
  // A status may be forged: a Secret of something else may hold an address of somebody else.
  const isOwned = secret.metadata.ownerReferences?.some((owner) => owner.uid === uid);
  const url = Buffer.from(secret.data?.url ?? '', 'base64').toString();
  if (!isOwned || !URL.canParse(url)) {
    throw new Refusal(
      `The Secret ${secretName} in the namespace ${namespace} holds no publish address of the Monitor ${name}: \`kubectl describe monitor ${name}\` says why.`,
    );
  }
  return url;
}
