// `kubectl beat ack`: says who takes care of an incident, or of all that are open on a Monitor. It is the API's, no YAML
// has it.
import { randomUUID } from 'node:crypto';
import { PROJECT_ANNOTATION } from '../../contract/crd/custom-resources.ts';
import type { OperationOutput } from '../../contract/operations/operations.ts';
import { isNotFound } from '../../kube/kube-error.ts';
import { type ApiAccess, chooseRoles, openApi, ROLE_OPTION } from '../api-access.ts';
import type { Cluster } from '../cluster.ts';
import type { Command, Result } from '../command.ts';
import { type MonitorObject, NAMESPACES } from '../objects.ts';
import { ALL_NAMESPACES, isGiven, textOf } from '../option.ts';
import { Refusal } from '../refusal.ts';
import { findRelease, RELEASE_OPTION } from '../release.ts';

type Incident = OperationOutput<'acknowledgeIncident'>;

export const ACK: Command = {
  name: 'ack',
  operands: ['<incident|monitor>'],
  summary: 'acknowledges an incident, or all open ones of a Monitor',
  details: 'Asks the API, with a token of the service account of a member. A second one adds its note.',
  options: [
    { name: 'note', value: 'text', text: 'for the timeline of the incident' },
    { ...ALL_NAMESPACES, text: 'looks for the Monitor of an incident in all namespaces' },
    ROLE_OPTION,
    RELEASE_OPTION,
  ],
  async run({ cluster, operands: [operand = ''], values }) {
    const roles = chooseRoles(textOf(values, 'role'), ['member', 'owner']);
    const note = textOf(values, 'note');
    // No name of an object has an underscore.
    const target = operand.startsWith('inc_')
      ? await findIncident(cluster, operand, isGiven(values, 'all-namespaces'))
      : await findOpenIncidents(cluster, operand);
    if (target.incidentIds.length === 0) return describeAcknowledged(operand, []);
    const release = findRelease(textOf(values, 'release'), cluster.api, target.monitors);
    const access = await openApi(cluster, release, roles);
    try {
      const acknowledged: Incident[] = [];
      for (const incidentId of target.incidentIds) {
        acknowledged.push(await acknowledge(access, { incidentId, project: target.project, note }));
      }
      return describeAcknowledged(operand, acknowledged);
    } finally {
      await access.close();
    }
  },
};

interface Target {
  incidentIds: string[];
  /** Id or name. */
  project: string;
  /** Those that may say which release it is. */
  monitors: MonitorObject[];
}

async function findOpenIncidents(cluster: Cluster, name: string): Promise<Target> {
  const monitor = await cluster.readMonitor(name);
  const { openIncidents = [], projectId } = monitor.status ?? {};
  return {
    incidentIds: openIncidents.map(({ incidentId }) => incidentId),
    project: projectId ?? '',
    monitors: [monitor],
  };
}

/** The Monitor that lists it names the project; an incident that is over is in the project of the namespace. */
async function findIncident(cluster: Cluster, incidentId: string, isEverywhere: boolean): Promise<Target> {
  const monitors = await cluster.listMonitors(isEverywhere);
  const lists = (monitor: MonitorObject) =>
    monitor.status?.openIncidents?.some((one) => one.incidentId === incidentId) === true;
  const named =
    monitors.find(lists) ?? (isEverywhere ? undefined : monitors.find((one) => one.status?.projectId));
  if (named === undefined && isEverywhere) {
    throw new Refusal(
      `No Monitor has the incident ${incidentId} open: \`kubectl beat status -A -o json\` lists them.`,
    );
  }
  const project = named?.status?.projectId ?? (await projectOfNamespace(cluster));
  return { incidentIds: [incidentId], project, monitors: named === undefined ? monitors : [named] };
}

/** The name that the namespace states, else its own. Who may not read namespaces has no annotation of it either. */
async function projectOfNamespace({ client, namespace }: Cluster): Promise<string> {
  const found = await client.get(NAMESPACES, { name: namespace }).catch((error: unknown) => {
    if (isNotFound(error)) throw new Refusal(`There is no namespace ${namespace}: correct --namespace.`);
    return undefined;
  });
  return found?.metadata.annotations?.[PROJECT_ANNOTATION] ?? namespace;
}

async function acknowledge(
  access: ApiAccess,
  { incidentId, project, note }: { incidentId: string; project: string; note: string | undefined },
): Promise<Incident> {
  const body = note === undefined ? {} : { note };
  const request = { params: { incidentId }, body, idempotencyKey: randomUUID() };
  try {
    return (await access.client.call('acknowledgeIncident', request, { project })).body;
  } catch (error) {
    throw access.explain(
      error,
      `There is no incident ${incidentId} in this project: state the namespace with -n, or -A.`,
    );
  }
}

export function describeAcknowledged(operand: string, incidents: readonly Incident[]): Result {
  const lines = incidents.map(({ incidentId, summary }) => `incident ${incidentId} acknowledged: ${summary}`);
  const text = lines.length === 0 ? `The Monitor ${operand} has no open incident.` : lines.join('\n');
  return { json: { items: incidents }, text };
}
