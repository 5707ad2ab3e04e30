// What the OpenAPI document says of its tags, and of parameters that many operations share.

/** In the order of the document. */
export const TAGS: Readonly<Record<string, string>> = {
  Monitors:
    'A monitor watches a job: its configuration, its live state, its beats as observations and series, and where its alerts go.',
  'Drafts of rules':
    'A proposed rule of a measurement, with a frozen window of observations. It changes the monitor when it is applied.',
  'Callback endpoints':
    'Where alerts go, the secrets that sign them, and the alert itself as a receiver gets it.',
  Incidents:
    'What a monitor has found: a missed deadline, a reported failure, a run that takes too long, a measurement that breaks its rule.',
  Deliveries: 'Alerts on their way to callback endpoints, with every attempt.',
  Projects: 'Parts of an organization. A credential belongs to one; a session names one.',
  Credentials: 'API credentials of a project. For owners.',
  Organization: 'What is about the whole organization.',
  Service: 'What is about the whole installation.',
  Beats: 'What jobs send. The address is the only secret.',
};

/** Of parameters whose schema says no more than their form. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  monitorId: 'The id of a monitor, as its creator chose it or the service made it.',
  draftId: 'The id of a draft, `draft_…`.',
  endpointId: 'The id of a callback endpoint, `cb_…`.',
  incidentId: 'The id of an incident, `inc_…`.',
  deliveryId: 'The id of a delivery, `dlv_…`.',
  operatorId: 'The name of an operator: its release and its cluster.',
  projectId: 'The id of a project, a UUID.',
  credentialId: 'The id of an API credential: the hex digits in `bkc_<credentialId>_<secret>`.',
  state: 'Only those in this state.',
  severity: 'Only those of this severity.',
  health: 'Only those of this health.',
  lifecycle: 'Only those of this lifecycle.',
  jurisdiction: 'Only those of this jurisdiction.',
};
