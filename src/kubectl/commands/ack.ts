// `kubectl beat ack`: says who takes care of an incident, or of all that are open on a Monitor. It is the API's, no YAML
// has it.
import { randomUUID } from 'node:crypto';
import { PROJECT_ANNOTATION } from '../../contract/crd/custom-resources.ts';
import type { OperationOutput } from '../../contract/operations/operations.ts';
import { isNotFound } from '../../kube/kube-error.ts';
import { type ApiAccess, chooseRoles, openApi, ROLE_OPTION } from '../api-access.ts';
import type { Cluster } from '../cluster.ts';
import type { Command, Result } from '../command.ts';
import { isMonitorOf, type MonitorRecord, readMonitorAtApi, readRecord } from '../monitor-at-api.ts';
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
      : await findMonitor(cluster, operand);
    if (target === undefined) return describeAcknowledged(operand, []);
    const release = findRelease(textOf(values, 'release'), cluster.api, target.monitors);
    const access = await openApi(cluster, release, roles);
    try {
      const { incidentIds, project } = await target.confirm(access);
      const acknowledged: Incident[] = [];
      for (const incidentId of incidentIds) {
        acknowledged.push(await acknowledge(access, { incidentId, project, note }));
      }
      return describeAcknowledged(operand, acknowledged);
    } finally {
      await access.close();
    }
  },
};

interface Target {
  /** Those that may say which release it is. */
  monitors: MonitorObject[];
  /** Asks the API which incidents these are: a status may be forged. Throws a Refusal for those of something else. */
  confirm(access: ApiAccess): Promise<{ incidentIds: string[]; project: string }>;
}

/** Undefined: it has no open incident. */
async function findMonitor(cluster: Cluster, name: string): Promise<Target | undefined> {
  const monitor = await cluster.readMonitor(name);
  if ((monitor.status?.openIncidents ?? []).length === 0) return undefined;
  return {
    monitors: [monitor],
    async confirm(access) {
      const { projectId, status } = await readMonitorAtApi(access, monitor);
      return {
        incidentIds: status.openIncidents.map(({ incidentId }) => incidentId),
        project: projectId,
      };
    },
  };
}

/** The Monitor that lists it names the project; an incident that is over is in the project of the namespace. */
async function findIncident(cluster: Cluster, incidentId: string, isEverywhere: boolean): Promise<Target> {
  const monitors = await cluster.listMonitors(isEverywhere);
  const [listing, ...others] = monitors.filter(({ status }) =>
    status?.openIncidents?.some((one) => one.incidentId === incidentId),
  );
  if (listing !== undefined && others.length > 0) {
    const names = [listing, ...others].map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
    throw new Refusal(
      `The statuses of several Monitors list the incident ${incidentId} (${names.join(', ')}), and one can be right: acknowledge it by the name of its Monitor.`,
    );
  }
  if (listing === undefined && isEverywhere) {
    throw new Refusal(
      `No Monitor has the incident ${incidentId} open: \`kubectl beat status -A -o json\` lists them.`,
    );
  }
  const named = listing ?? monitors.find(({ status }) => status?.projectId);
  const project = named?.status?.projectId ?? (await projectOfNamespace(cluster));
  return {
    monitors: listing === undefined ? monitors : [listing],
    async confirm(access) {
      const { monitorId } = await readIncident(access, { incidentId, project });
      const record = await readRecord(access, { monitorId, project });
      const isRight =
        listing === undefined ? record.origin?.namespace === cluster.namespace : isMonitorOf(listing, record);
      if (!isRight) throw new Refusal(describeStranger(incidentId, record));
      return { incidentIds: [incidentId], project };
    },
  };
}

function describeStranger(incidentId: string, { monitorId, origin }: MonitorRecord): string {
  if (origin === undefined) {
    return `The incident ${incidentId} is of the monitor ${monitorId}, which no Monitor declares: acknowledge it through the API.`;
  }
  const { namespace, name } = origin;
  return `The incident ${incidentId} is of the Monitor ${name} in the namespace ${namespace}: acknowledge it with \`kubectl beat ack ${name} -n ${namespace}\`.`;
}

/** The name that the namespace states, else its own. Who may not read namespaces has no annotation of it either. */
async function projectOfNamespace({ client, namespace }: Cluster): Promise<string> {
  const found = await client.get(NAMESPACES, { name: namespace }).catch((error: unknown) => {
    if (isNotFound(error)) throw new Refusal(`There is no namespace ${namespace}: correct --namespace.`);
    return undefined;
  });
  return found?.metadata.annotations?.[PROJECT_ANNOTATION] ?? namespace;
}

interface IncidentRef {
  incidentId: string;
  project: string;
}

async function readIncident(access: ApiAccess, { incidentId, project }: IncidentRef): Promise<Incident> {
  try {
    return (await access.client.call('getIncident', { params: { incidentId } }, { project })).body;
  } catch (error) {
    throw access.explain(error, noIncident(incidentId));
  }
}

async function acknowledge(
  access: ApiAccess,
  { incidentId, project, note }: IncidentRef & { note: string | undefined },
): Promise<Incident> {
  const body = note === undefined ? {} : { note };
  const request = { params: { incidentId }, body, idempotencyKey: randomUUID() };
  try {
    return (await access.client.call('acknowledgeIncident', request, { project })).body;
  } catch (error) {
    throw access.explain(error, noIncident(incidentId));
  }
}

function noIncident(incidentId: string): string {
  return `There is no incident ${incidentId} in this project: state the namespace with -n, or -A.`;
}

export function describeAcknowledged(operand: string, incidents: readonly Incident[]): Result {
  const lines = incidents.map(({ incidentId, summary }) => `incident ${incidentId} acknowledged: ${summary}`);
  const text = lines.length === 0 ? `The Monitor ${operand} has no open incident.` : lines.join('\n');
  return { json: { items: incidents }, text };
}
