// The records of the examples: one project with a nightly backup whose run has failed once.

import type { Observation } from '../../resources/beat.ts';
import type { CallbackEndpoint, SigningSecret } from '../../resources/callback.ts';
import type { Credential } from '../../resources/credential.ts';
import type { AlertEvent, Delivery } from '../../resources/delivery.ts';
import type { Incident } from '../../resources/incident.ts';
import type { Monitor, MonitorStatus } from '../../resources/monitor.ts';
import type { Project } from '../../resources/project.ts';

/** Ids that the service makes. */
export const ID = {
  organization: '01a2034a-1f08-7d35-b6c2-90e7a4d81b53',
  project: '01a2034a-7d1c-7b52-8c41-5f0e9d3b6a20',
  credential: '01a2034b91e47c08b5d2f6a0c37e8419',
  endpoint: 'cb_01a2034c2f6b7a319e04d85c1b7f20a6',
  draft: 'draft_01a2034d77c07f25b18e34d96c02fa51',
  otherDraft: 'draft_01a2034d9e417a06c5d21f7b48e3906c',
  incident: 'inc_01a2034d58c97e14a2b06f3d9c81e752',
  delivery: 'dlv_01a2034d58d17c6fb3e92a4c05d7f816',
  redelivery: 'dlv_01a2034f0b3e7d45918c6e2f7a50b3c9',
} as const;

/** Names that the caller chooses. */
export const MONITOR = 'nightly-backup';
export const ALIAS = 'on-call';
export const ENDPOINT_URL = 'https://hooks.example.com/beatkeeper';
export const PUBLISH_ID = '0f85583d-8dd7-4186-8985-e2d6ca90a0b9';

export const OPERATOR = 'beatkeeper/beatkeeper@0b5f5e0c-1f0e-4a55-9a52-0c9e3c9b7d11';

export const RUN = 'backup-2026-11-22';

const CREATED = '2026-11-22T08:00:00.000Z';
const BEAT = '2026-11-22T09:00:00.000Z';
const FAILED = '2026-11-22T10:00:00.000Z';

export const project: Project = {
  projectId: ID.project,
  name: 'Payments',
  formerNames: [],
  createdAt: CREATED,
  updatedAt: CREATED,
  version: 1,
};

export const credential: Credential = {
  credentialId: ID.credential,
  name: 'Deploys',
  preset: 'manage',
  scopes: [],
  createdAt: CREATED,
  lastUsedAt: BEAT,
  version: 1,
};
/** The parts that are secret are not those of any installation. */
export const CREDENTIAL_SECRET = `bkc_${ID.credential}_${'x'.repeat(43)}`;

export const endpoint: CallbackEndpoint = {
  id: ID.endpoint,
  projectId: ID.project,
  alias: ALIAS,
  kind: 'webhook',
  url: ENDPOINT_URL,
  lifecycle: 'active',
  isOrganizationDefault: false,
  generation: 1,
  createdAt: CREATED,
  updatedAt: CREATED,
  secret: { version: 1, issuedAt: CREATED },
};

export const signingSecret: SigningSecret = {
  secret: `sigcb_v1_${'x'.repeat(43)}`,
  version: 1,
  revealedAt: CREATED,
  onlyShownOnce: true,
};
/** After a rotation, with the overlap of 300 s. */
export const rotation = { previousVersion: 1, overlapEndsAt: '2026-11-22T08:35:00.000Z' };

const waiting: MonitorStatus = {
  health: 'waiting',
  lastSequence: 0,
  cadence: { source: 'configured', intervalSeconds: 3600 },
  openIncidents: [],
};

/** As it is created: no beat has come. */
export const newMonitor: Monitor = {
  monitorId: MONITOR,
  monitorKey: MONITOR,
  projectId: ID.project,
  name: 'Nightly backup',
  labels: { team: 'storage' },
  intervalSeconds: 3600,
  graceSeconds: 300,
  jurisdiction: 'unrestricted',
  callback: { kind: 'named', alias: ALIAS },
  awaitFirstBeat: true,
  recoveryBeats: 1,
  missedBeatsToOpen: 1,
  measurements: {},
  lifecycle: 'active',
  publishUrl: `https://beatkeeper.example.com/ping/${PUBLISH_ID}`,
  configurationVersion: 1,
  createdAt: CREATED,
  updatedAt: CREATED,
  status: waiting,
};

export const incident: Incident = {
  incidentId: ID.incident,
  projectId: ID.project,
  monitorId: MONITOR,
  monitorName: 'Nightly backup',
  kind: 'reported_failure',
  state: 'open',
  severity: 'critical',
  openedAt: FAILED,
  openSequence: 2,
  lastSequence: 2,
  violationCount: 1,
  summary: 'The job reported a failure.',
};

/** A success, then a failure. */
export const monitor: Monitor = {
  ...newMonitor,
  status: {
    health: 'down',
    firstBeatAt: BEAT,
    lastBeatAt: FAILED,
    lastSequence: 2,
    lastDurationSeconds: 61.5,
    nextDeadlineAt: '2026-11-22T11:05:00.000Z',
    cadence: waiting.cadence,
    openIncidents: [
      {
        incidentId: ID.incident,
        kind: 'reported_failure',
        state: 'open',
        severity: 'critical',
        openedAt: FAILED,
      },
    ],
  },
};

export const success: Observation = {
  sequence: 1,
  kind: 'success',
  receivedAt: BEAT,
  measurements: { rows: 1042 },
  durationSeconds: 61.5,
  runId: RUN,
  late: false,
  violations: [],
};

export const failure: Observation = {
  sequence: 2,
  kind: 'fail',
  receivedAt: FAILED,
  measurements: {},
  exitStatus: 1,
  runId: RUN,
  message: 'pg_dump: error: connection to server failed',
  late: false,
  violations: [],
};

export const delivery: Delivery = {
  deliveryId: ID.delivery,
  endpointId: ID.endpoint,
  incidentId: ID.incident,
  monitorId: MONITOR,
  event: 'incident.opened',
  state: 'delivered',
  sequence: 1,
  attemptCount: 1,
  createdAt: FAILED,
  deliveredAt: '2026-11-22T10:00:00.180Z',
};

/** Somebody with a credential of preset manage. */
export const actor = { kind: 'api_credential', id: ID.credential, display: 'Deploys' } as const;
export const REQUEST_ID = 'req_01a2034e1c5a7f3098d4b7a6e2f01c85';

/** The body that the receiver of the delivery gets. */
export const alert: AlertEvent = {
  type: 'incident.opened',
  timestamp: FAILED,
  data: {
    organizationId: ID.organization,
    projectId: ID.project,
    projectName: project.name,
    incident,
    monitor: {
      monitorId: MONITOR,
      name: monitor.name,
      labels: monitor.labels,
      lastBeatAt: FAILED,
      nextDeadlineAt: '2026-11-22T11:05:00.000Z',
    },
    sequence: 1,
  },
};
