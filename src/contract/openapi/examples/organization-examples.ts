// Examples of the operations on projects, credentials and billing, and of the status feed.
import type { organizationOperations } from '../../operations/organization-operations.ts';
import type { Examples } from './example.ts';
import { CREDENTIAL_SECRET, credential, ID, MONITOR, monitor, project } from './records.ts';

const projectParams = { projectId: ID.project };
const credentialParams = { credentialId: ID.credential };
const { lastUsedAt: _unused, ...newCredential } = credential;

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
        },
      ],
      nextCursor: 'ZmVlZCA3NDE6NzQxOg',
      hasMore: false,
      publishBaseUrl: 'https://beats.example.com',
    },
  },
  getOpenApi: { answer: { openapi: '3.1.0', info: { title: 'Beatkeeper', version: '1' } } },
};
