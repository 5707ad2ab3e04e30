// `kubectl beat explain`: why a Monitor is in its state and what comes next, as GET /v1/monitors/{id}/explain says it.

import type { OperationOutput } from '../../contract/operations/operations.ts';
import { chooseRoles, openApi, ROLE_OPTION } from '../api-access.ts';
import type { Command } from '../command.ts';
import { type MonitorRecord, namedMonitor, readMonitorAtApi } from '../monitor-at-api.ts';
import { conditionOf } from '../objects.ts';
import { textOf } from '../option.ts';
import { Refusal } from '../refusal.ts';
import { findRelease, RELEASE_OPTION } from '../release.ts';
import { formatDuration, formatTable, formatTime } from '../table.ts';

export type Explanation = OperationOutput<'explainMonitor'>;
export type OpenIncidents = MonitorRecord['status']['openIncidents'];

export const EXPLAIN: Command = {
  name: 'explain',
  operands: ['<monitor>'],
  summary: 'why it is in its state, what makes its deadline, and what keeps its alerts back',
  details: 'Asks the API, with a token of the service account of a viewer.',
  options: [
    {
      name: 'at',
      value: 'time',
      text: 'a moment of the last 30 days, such as 2026-11-21T12:00:00Z; default: now',
    },
    ROLE_OPTION,
    RELEASE_OPTION,
  ],
  async run({ cluster, operands: [name = ''], values, isJson, print }) {
    const at = readMoment(textOf(values, 'at'));
    const roles = chooseRoles(textOf(values, 'role'), ['viewer', 'member', 'owner']);
    const monitor = await cluster.readMonitor(name);
    try {
      const { explanation, openIncidents } = await explain();
      const { namespace } = cluster;
      return {
        json: { namespace, name, ...explanation },
        text: describeExplanation(explanation, openIncidents),
      };
    } catch (error) {
      // What the object says of itself needs no API.
      const because = conditionOf(monitor, 'Healthy')?.message;
      if (!isJson && at === undefined && because !== undefined) print(because);
      throw error;
    }

    async function explain(): Promise<{ explanation: Explanation; openIncidents: OpenIncidents }> {
      // Without one there is nothing to ask, and nobody needs a token.
      namedMonitor(monitor);
      const release = findRelease(textOf(values, 'release'), cluster.api, [monitor]);
      const access = await openApi(cluster, release, roles);
      try {
        const { monitorId, projectId: project, status } = await readMonitorAtApi(access, monitor);
        const request = { params: { monitorId }, query: at === undefined ? {} : { at } };
        const answer = await access.client.call('explainMonitor', request, { project });
        return { explanation: answer.body, openIncidents: status.openIncidents };
      } catch (error) {
        throw access.explain(error);
      } finally {
        await access.close();
      }
    }
  },
};

function readMoment(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) {
    throw new Refusal(`--at ${text} is no time: state one with its zone, such as 2026-11-21T12:00:00Z.`);
  }
  return new Date(ms).toISOString();
}

/** The sentence first, then what it follows from. */
export function describeExplanation(explanation: Explanation, openIncidents: OpenIncidents): string {
  const { because, deadline, rules, silence } = explanation;
  const sections = [
    because,
    deadline.parts.length === 0 ? undefined : describeDeadline(deadline),
    section(
      'Rules',
      rules.map((rule) => [
        `${rule.measurement} ${rule.rule} ${rule.bound}`,
        rule.lastValue === undefined ? 'no value yet' : `last ${rule.lastValue}`,
        `${rule.violationsInRow} violations in a row${rule.opensAt === undefined ? '' : `, opens at ${rule.opensAt}`}`,
      ]),
    ),
    section(
      'What keeps alerts back',
      silence.map(({ reason, until, note }) => [
        reason,
        until === undefined ? '' : `until ${formatTime(until)}`,
        note,
      ]),
    ),
    section(
      'Open incidents now',
      openIncidents.map(({ incidentId, kind, severity, state, openedAt }) => [
        incidentId,
        kind,
        severity,
        state,
        `since ${formatTime(openedAt)}`,
      ]),
    ),
  ];
  return sections.filter((text) => text !== undefined).join('\n\n');
}

function describeDeadline({ at, parts }: Explanation['deadline']): string {
  const rows = parts.map(({ kind, at: partAt, seconds, note }) => [
    kind,
    partAt === undefined ? '' : formatTime(partAt),
    seconds === undefined ? '' : `${seconds < 0 ? '-' : '+'}${formatDuration(Math.abs(seconds))}`,
    note,
  ]);
  const title = at === undefined ? 'No deadline runs' : `Deadline ${formatTime(at)}`;
  return section(title, rows) ?? title;
}

function section(title: string, rows: readonly (readonly string[])[]): string | undefined {
  if (rows.length === 0) return undefined;
  const body = formatTable(rows).replaceAll(/^/gm, '  ');
  return `${title}:\n${body}`;
}
