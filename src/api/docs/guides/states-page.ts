// The page /docs/states: lifecycle and health of a monitor, incidents and deliveries (docs/contract/monitors.md,
// incidents.md, callbacks.md). The words come from the domain: the types ask for each of them.
import type { DeliveryState, UnavailableReason } from '../../../domain/callback.ts';
import {
  type IncidentKind,
  type IncidentState,
  REALERT_MS,
  type TimelineType,
} from '../../../domain/incident.ts';
import type { LifecycleAction } from '../../../domain/lifecycle.ts';
import type { Health } from '../../../domain/monitor.ts';
import { KEPT_DAYS } from '../../../domain/retention.ts';
import { type Html, heading, html, table } from '../html.ts';
import { page } from '../page.ts';
import { diagram } from './diagram.ts';

type Texts<Word extends string> = Readonly<Record<Word, string>>;

/** In the order in which they are decided. */
const HEALTH: Texts<Health> = {
  paused: 'The lifecycle says so. Beats are recorded; no deadline runs, and nothing opens.',
  archived: 'The lifecycle says so. Beats are refused with `service.monitor_archived`.',
  maintenance:
    'A maintenance window runs. Missed deadlines in it open nothing; the deadline moves to its end.',
  down: 'An incident is `open`: a beat is missing, a run failed, or a run does not end.',
  recovering: 'Such an incident is `recovering`: successes have come, but not yet `recoveryBeats` of them.',
  late: 'The beat is overdue and the deadline has not passed: inside the grace, with a schedule from half of the grace on. Nothing has opened. (`late` of an observation says more: it came after the deadline.)',
  waiting: 'No first beat yet. No deadline runs, unless `awaitFirstBeat` is false.',
  up: 'The last beat came in time.',
};

const LIFECYCLE: Texts<LifecycleAction> = {
  pause: 'active → paused. Incidents that are open stay open; a maintenance window ends.',
  resume: 'paused → active. The clock starts again with a full interval plus grace.',
  archive: `active or paused → archived. Open incidents are resolved. It can be restored for ${KEPT_DAYS.archivedMonitors} days, then it is deleted.`,
  restore: 'archived → active, with a full interval plus grace. Counts against the plan.',
  enter_maintenance: 'active stays active. A second call replaces the window.',
  exit_maintenance:
    'active stays active. Ends the window that was set, or else the one of a maintenance schedule that runs, and starts a running clock again.',
};

const INCIDENT: Texts<IncidentState> = {
  open: 'The cause is there.',
  recovering:
    'A success came, and `recoveryBeats` asks for more in a row. With the default of 1 an incident passes through it at once.',
  recovered: 'Over: enough successes came in a row. Never changes again.',
  resolved: 'Over: somebody ended it, or the monitor was archived or deleted. Never changes again.',
};

const KIND: Texts<IncidentKind> = {
  missed_deadline: 'No beat came in time: `missedBeatsToOpen` deadlines passed in a row.',
  reported_failure:
    'A beat said that the run failed: `/fail`, an exit status other than 0, or `status: fail`.',
  overdue_run: 'A run that began with `/start` did not end in `maxRuntimeSeconds`.',
  rule_violation: 'A measurement broke a rule of the monitor, as often or as long as its policy says.',
};

const TIMELINE: Texts<TimelineType> = {
  opened: 'The incident opened.',
  recovering: 'A first success came; of a rule, a first one that conforms.',
  reopened: 'The cause came again before the incident was over.',
  recovered: 'Enough successes came.',
  resolved: 'Ended by decision, by archiving or by deleting.',
  escalated: 'It got graver: its rule was broken for as often or as long as its policy says.',
  acknowledged: 'Somebody takes care of it.',
  note: 'Somebody wrote a note.',
  delivery: 'The delivery of an alert changed its state.',
  suppressed: 'An alert was not sent; `detail.reason` says why.',
  service_outage:
    'Beatkeeper itself was away, could not take beats of this monitor, or (`reason: no_operator`) no operator led that beats it. The deadline was moved by it.',
};

const DELIVERY: Texts<DeliveryState> = {
  pending: 'No attempt yet.',
  failing: 'An attempt failed, another one is due.',
  delivered: 'The receiver answered 200 to 299.',
  exhausted: 'No attempt is left, or the receiver answered 410.',
  canceled: 'The endpoint was disabled or removed, or the monitor deleted.',
};

const UNAVAILABLE: Texts<UnavailableReason> = {
  no_organization_default: 'The monitor names no endpoint, and the organization has no default one.',
  alias_not_found: 'The project has no endpoint with this alias.',
  endpoint_disabled: 'The endpoint is disabled, by somebody or after a 410 of its receiver.',
  endpoint_removed: 'The endpoint was removed.',
};

export function statesPage(): string {
  return page(
    '/docs/states',
    'States',
    html`<h1>States of monitors, incidents and deliveries</h1>
${heading(2, 'Health of a monitor')}
<p><code>status.health</code> is one word for people. It is decided anew at each read; the first line that holds counts.</p>
${words(['Health', 'When'], HEALTH)}
${healthDiagram()}
${heading(2, 'Lifecycle of a monitor')}
<p>What somebody has decided: <code>active</code>, <code>paused</code> or <code>archived</code>. <a href="/docs#changeMonitorLifecycle">One operation</a> takes these actions; from any other state they are 409 <code>service.conflict</code>.</p>
${words(['Action', 'Does'], LIFECYCLE)}
${heading(2, 'Incidents')}
<p>An incident is one cause at one monitor, from when it is found until it is over. There is at most one of each kind at a time.</p>
${words(['Kind', 'Opens when'], KIND)}
${incidentDiagram()}
${words(['State', 'Means'], INCIDENT)}
<p>An incident that opens again within ${REALERT_MS / 60_000} minutes of its last alert sends no second one. A success counts for every incident of a monitor that is not over.</p>
${heading(3, 'Timeline')}
<p><a href="/docs#getIncidentTimeline">The timeline</a> of an incident says what happened, the oldest entry first.</p>
${words(['Type', 'Says'], TIMELINE)}
${heading(2, 'Deliveries')}
<p>One message on its way to one endpoint. <a href="/docs#getDelivery">A delivery</a> lists every attempt.</p>
${words(['State', 'Means'], DELIVERY)}
${heading(3, 'Why an alert has nowhere to go')}
<p><code>unavailableReason</code> of a <a href="/docs#getMonitorBinding">binding</a>:</p>
${words(['Reason', 'Means'], UNAVAILABLE)}`,
  );
}

function words(head: readonly [string, string], texts: Readonly<Record<string, string>>): Html {
  return table(
    head,
    Object.entries(texts).map(([word, text]) => [`\`${word}\``, text]),
  );
}

function healthDiagram(): Html {
  const said =
    'A monitor is waiting until its first beat, then up. Past the interval it is late; a beat makes it up again. At the deadline, or with a reported failure, it is down. Successes make it recovering and up.';
  return diagram(said, [720, 190], {
    boxes: [
      { name: 'waiting', at: [70, 40] },
      { name: 'up', at: [270, 40] },
      { name: 'late', at: [470, 40] },
      { name: 'down', at: [640, 150] },
      { name: 'recovering', at: [270, 150] },
    ],
    arrows: [
      { path: 'M130 40H207', label: 'first beat', at: [169, 32] },
      { path: 'M330 30H407', label: 'interval over', at: [369, 22] },
      { path: 'M410 50H333', label: 'beat', at: [372, 66] },
      { path: 'M530 40H640V127', label: 'deadline', at: [610, 32] },
      { path: 'M580 150H333', label: 'success', at: [456, 142] },
      { path: 'M270 130V63', label: 'enough successes', at: [212, 100] },
      { path: 'M310 60L577 138', label: 'failure reported', at: [440, 86] },
    ],
  });
}

function incidentDiagram(): Html {
  const said =
    'An incident begins open. A success makes it recovering, enough successes recovered; the cause that comes again makes it open again. An action, archiving or deleting resolves it.';
  return diagram(said, [720, 190], {
    boxes: [
      { name: 'open', at: [70, 40] },
      { name: 'recovering', at: [340, 40] },
      { name: 'recovered', at: [640, 40] },
      { name: 'resolved', at: [340, 150] },
    ],
    arrows: [
      { path: 'M130 30H277', label: 'a success', at: [204, 22] },
      { path: 'M280 50H133', label: 'the cause comes again', at: [206, 68] },
      { path: 'M400 40H577', label: 'recoveryBeats successes', at: [489, 32] },
      { path: 'M70 60V150H277', label: 'an action, archive, delete', at: [175, 142] },
      { path: 'M340 60V127', label: 'the same', at: [375, 100] },
    ],
  });
}
