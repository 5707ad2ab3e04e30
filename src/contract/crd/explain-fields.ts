// The texts of `kubectl explain` for fields whose schemas have no description. A schema with a description keeps it.
import type { JsonObject } from '../json-schema.ts';

/** By path: `spec.schedule.cron`; `*` stands for the keys of a map and for the items of a list. */
type Texts = Readonly<Record<string, string>>;

const STATUS_TEXTS: Texts = {
  status: 'What the operator has found and done. It writes this part alone; changes by others are undone.',
  'status.projectId': 'The project of the namespace.',
  'status.conditions':
    'Whether the object is as its spec says (Synced), whether it works (Ready), and what needs a person (Stalled). `kubectl describe` shows them.',
  'status.conditions.*.type': 'Name of the condition.',
  'status.conditions.*.status': 'True, False or Unknown.',
  'status.conditions.*.observedGeneration': 'The generation that the condition was found for.',
  'status.conditions.*.lastTransitionTime': 'When `status` changed last.',
  'status.conditions.*.reason': 'Why, in one word.',
  'status.conditions.*.message': 'Why, in a sentence.',
};

/** Of a measurement rule, below its own path. */
const RULE_FIELD_TEXTS: Texts = {
  metricType: 'What the number is. A counter only grows: its increase is compared. Default: gauge.',
  minimum: 'Violated below it.',
  maximum: 'Violated above it.',
  maximumAbsoluteDelta: 'Violated where the value moved by more since the last success.',
  maximumPercentageDelta: 'Violated where the value moved by more percent since the last success.',
  zeroExpectation: '`zero`: violated unless it is 0. `nonzero`: violated by 0.',
  ratio: 'Bounds for this measurement divided by another one of the same beat.',
  'ratio.denominator': 'Key of the measurement to divide by.',
  'ratio.minimum': 'Violated below it.',
  'ratio.maximum': 'Violated above it.',
  missingPolicy:
    'Of a beat without the measurement: `skip` compares nothing, `zero` takes it as 0, `reject` refuses the beat. Default: skip.',
  transform: '`log1p`: bounds and deltas compare the logarithm of 1 plus the value. Default: none.',
  unit: 'Unit of the number, for people.',
  ruleAction: 'Whether a violation opens an incident. Default: active.',
  'ruleAction.mode': '`inactive`: violations are recorded, and open nothing.',
  'ruleAction.version': 'Always 1.',
  rulePolicy:
    'When a violation becomes an incident: consecutiveObservations and severity, or the four other fields. Default: the first one, as warning.',
  'rulePolicy.consecutiveObservations': 'Violations in a row that open an incident.',
  'rulePolicy.severity': 'Severity of that incident.',
  'rulePolicy.version': 'Always 1.',
  'rulePolicy.transientConsequence': 'Severity from the first violation on; `none` opens nothing.',
  'rulePolicy.sustainedConsequence': 'Severity once the criterion is met.',
  'rulePolicy.sustainedCriterion': 'When a violation counts as sustained.',
  'rulePolicy.sustainedCriterion.kind': 'What is counted.',
  'rulePolicy.sustainedCriterion.observations': 'Of `observations`: violations in a row.',
  'rulePolicy.sustainedCriterion.seconds': 'Of `elapsed_time`: time since the first violation of the row.',
  disabledRules: 'Rules that do not hold, whatever their fields say.',
  mode: 'Always heartbeat.',
};

function ruleTexts(path: string): Texts {
  return Object.fromEntries(
    Object.entries(RULE_FIELD_TEXTS).map(([field, text]) => [`${path}.${field}`, text]),
  );
}

export const MONITOR_TEXTS: Texts = {
  ...STATUS_TEXTS,
  spec: 'When the job has to send a beat, and where alerts go. A field that is not set here keeps what the API has: its default, or what was set there. Without intervalSeconds and schedule the interval is learned from the beats.',
  'spec.description': 'Free text for people.',
  'spec.jurisdiction': 'Where the data is kept. Cannot change. Default: unrestricted.',
  'spec.lifecycle':
    'A paused monitor takes beats and opens nothing; an archived one takes none. Default: active. Not stated: left as it is.',
  'spec.maintenance.startsAt': 'Start of the window, RFC 3339.',
  'spec.maintenance.endsAt': 'End of the window, RFC 3339, at most 30 days after its start.',
  'spec.maintenance.reason': 'Why, for people.',
  'spec.dependsOn.*.name': 'Name of the Monitor.',
  'spec.callback.kind':
    '`organization_default`: the default endpoint of the organization. `named`: callbackRef or alias. `inline`: url. `disabled`: nowhere.',
  'spec.callback.callbackRef.name': 'Name of the Callback.',
  ...ruleTexts('spec.measurements.*'),
  'spec.workloadRef.apiVersion':
    'Version of the workload: batch/v1 of a CronJob or a Job, apps/v1 of the others.',
  'spec.workloadRef.kind': 'Kind of the workload.',
  'spec.workloadRef.name': 'Name of the workload, in this namespace.',
  'status.monitorId': 'Id of the monitor at the API.',
  'status.configurationVersion': 'Version of the configuration at the API.',
  'status.lifecycle': 'The lifecycle that the monitor has.',
  'status.firstBeatAt': 'When the first beat came.',
  'status.nextDeadlineAt': 'When a beat must have come, grace included.',
  'status.restorableUntil': 'Until when an archived monitor can be restored.',
  'status.cadence': 'How often a beat is expected.',
  'status.cadence.source':
    '`configured`: intervalSeconds. `schedule`: the schedule. `learned` or `learning`: from the beats.',
  'status.cadence.intervalSeconds': 'The interval, where there is one.',
  'status.cadence.sampleCount': 'Beats that it was learned from.',
  'status.openIncidents': 'Incidents that have not ended.',
  'status.openIncidents.*.incidentId': 'Id of the incident at the API.',
  'status.openIncidents.*.kind': 'What happened.',
  'status.openIncidents.*.state': '`recovering`: beats come again.',
  'status.openIncidents.*.severity': 'How grave it is.',
  'status.openIncidents.*.openedAt': 'When it was opened.',
  'status.publishSecretRef': 'The Secret that has the publish address.',
  'status.publishSecretRef.name': 'Name of the Secret.',
  'status.appliedRules': 'Which Rules gave the monitor its measurement rules.',
};

export const CALLBACK_TEXTS: Texts = {
  ...STATUS_TEXTS,
  spec: 'Where alerts are sent. A webhook needs url or urlSecretRef; the Secret `<name>-signing` gets the key that its receiver checks signatures with.',
  'spec.urlSecretRef': 'Of a webhook: the Secret of this namespace that has its URL.',
  'spec.urlSecretRef.name': 'Name of the Secret.',
  'spec.urlSecretRef.key': 'Key of the Secret.',
  'spec.relay': 'Of a relay_subscriber: the person who is told.',
  'spec.relay.actorId': 'Id of the person.',
  'spec.relay.notifierId': 'One of the notifiers of the installation.',
  'spec.relayGroup': 'Of a relay_group: who is told.',
  'spec.relayGroup.notifierId': 'One of the notifiers of the installation.',
  'spec.lifecycle': 'A disabled endpoint gets no alerts. Default: active. Not stated: left as it is.',
  'spec.rotation':
    'When the signing secret is replaced. By hand: change the annotation beatkeeper.dev/rotate.',
  'status.endpointId': 'Id of the endpoint at the API.',
  'status.alias': 'The alias that the endpoint has.',
  'status.kind': 'The kind that the endpoint has.',
  'status.lifecycle': 'The lifecycle that the endpoint has.',
  'status.isOrganizationDefault': 'Whether monitors that name no endpoint alert here.',
  'status.secretVersion': 'Version of the signing secret.',
  'status.signingSecretRef': 'The Secret that has the signing secret.',
  'status.signingSecretRef.name': 'Name of the Secret.',
  'status.lastRotation.value': 'The value.',
  'status.lastRotation.at': 'When it was acted on; absent where it was there at creation.',
  'status.lastDelivery': 'The last alert that was sent here. At most a minute old.',
  'status.lastDelivery.state': '`failing`: another attempt is due. `exhausted`: there is none left.',
  'status.lastDelivery.at': 'When it was tried last.',
  'status.lastDelivery.statusCode': 'What the receiver answered, if it did.',
};

export const RULE_TEXTS: Texts = {
  ...STATUS_TEXTS,
  spec: 'A measurement rule for one Monitor, or for all that a selector finds. A Monitor that has the measurement in its own spec keeps that; of several Rules for one Monitor and measurement the oldest counts.',
  'spec.monitorRef.name': 'Name of the Monitor.',
  'spec.selector.matchLabels': 'Labels that a Monitor must have, with these values.',
  'spec.selector.matchExpressions': 'Conditions on its labels. All must hold.',
  'spec.selector.matchExpressions.*.key': 'Key of the label.',
  'spec.selector.matchExpressions.*.operator':
    '`In`, `NotIn`: its value is one of `values`, or not. `Exists`, `DoesNotExist`: it has the label, or not.',
  'spec.selector.matchExpressions.*.values': 'Of `In` and `NotIn`.',
  ...ruleTexts('spec.definition'),
  'status.monitors': 'How far it is, in numbers of Monitors.',
  'status.display': 'Texts for the columns of kubectl.',
};

/** A copy of the schema at `path` in which every field has a description. Throws for a field without one. */
export function explainFields(schema: JsonObject, path: string, texts: Texts): JsonObject {
  const isPart = path.endsWith('.*');
  const description = schema.description ?? texts[path];
  if (!isPart && description === undefined)
    throw new Error(`Describe ${path}: kubectl explain would say nothing.`);
  const explained: JsonObject = isPart ? { ...schema } : { description, ...schema };
  const properties = Object.entries((schema.properties ?? {}) as Record<string, JsonObject>);
  if (properties.length > 0) {
    explained.properties = Object.fromEntries(
      properties.map(([name, field]) => [name, explainFields(field, `${path}.${name}`, texts)]),
    );
  }
  for (const part of ['items', 'additionalProperties']) {
    if (typeof schema[part] === 'object')
      explained[part] = explainFields(schema[part] as JsonObject, `${path}.*`, texts);
  }
  return explained;
}
