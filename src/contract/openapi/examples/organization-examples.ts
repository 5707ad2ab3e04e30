// Examples of the operations on projects, credentials and billing, of the status feed and of the export.
import type { organizationOperations } from '../../operations/organization-operations.ts';
import { EXPORT_COLUMNS, type ExportRecord } from '../../resources/export.ts';
import type { Examples } from './example.ts';
import { CREDENTIAL_SECRET, credential, ID, MONITOR, monitor, project } from './records.ts';

const projectParams = { projectId: ID.project };
const credentialParams = { credentialId: ID.credential };
const { lastUsedAt: _unused, ...newCredential } = credential;

/** Of the last checkpoint. */
const END = 'WyJleHBvcnQiLCJlbmQiXQ';
const LINE: ExportRecord = {
  type: 'export.started',
  organizationId: ID.organization,
  projectId: ID.project,
  startedAt: '2026-11-22T10:00:00.000Z',
  observationsFrom: '2026-10-23T00:00:00.000Z',
};
const ROW = [
  ...[ID.project, MONITOR, 'unrestricted', 1, 'success', '2026-11-22T09:00:00.000Z'],
  ...['', '', '', '', false, '""', '"{""rows"":1042}"', '"[]"', END],
];

export const organizationExamples: Examples<keyof typeof organizationOperations> = {
  listProjects: { query: { limit: 50 }, answer: { items: [project] } },
  createProject: { body: { name: 'Payments' }, answer: project },
  getProject: { params: projectParams, answer: project },
  updateProject: {
    params: projectParams,
    body: { name: 'Payments EU' },
    answer: { ...project, name: 'Payments EU', version: 2 },
  },
  listCredentials: { query: { limit: 50 }, answer: { items: [credential] } },
  createCredential: {
    body: { name: 'Deploys', preset: 'manage' },
    answer: { credential: newCredential, secret: CREDENTIAL_SECRET, replayed: false },
  },
  getCredential: { params: credentialParams, answer: credential },
  revokeCredential: { params: credentialParams },
  rotateCredential: {
    params: credentialParams,
    body: { overlapSeconds: 600 },
    answer: {
      credential: { ...credential, version: 2 },
      secret: CREDENTIAL_SECRET,
      replayed: false,
      overlapEndsAt: '2026-11-22T10:10:00.000Z',
    },
  },
  getBilling: {
    answer: {
      organizationId: ID.organization,
      plan: { id: 'scale', name: 'Scale', version: 1 },
      serviceState: 'active',
      subscription: { status: 'none' },
      dispute: 'none',
      portalAvailable: false,
    },
  },
  getStatusFeed: {
    query: { waitSeconds: 0 },
    answer: {
      items: [
        {
          monitorId: MONITOR,
          projectId: ID.project,
          projectName: 'Payments',
          changeSequence: 7,
          lifecycle: 'active',
          configurationVersion: 1,
          status: monitor.status,
          because: 'Down since 2026-11-22 10:00:00 UTC: The job reported a failure.',
        },
      ],
      nextCursor: 'ZmVlZCA3NDE6NzQxOg',
      hasMore: false,
      publishBaseUrl: 'https://beats.example.com',
    },
  },
  exportOrganization: {
    query: { format: 'ndjson' },
    streams: {
      'application/x-ndjson': LINE,
      'text/csv': [EXPORT_COLUMNS, ROW].map((row) => `${row.join(',')}\r\n`).join(''),
    },
  },
  getOpenApi: { answer: { openapi: '3.1.0', info: { title: 'Beatkeeper', version: '1' } } },
};
