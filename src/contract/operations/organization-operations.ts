// Operations on projects and credentials, the status feed and the contract itself (docs/contract/tenancy.md).
import { z } from 'zod';
import { identifier } from '../fields/field.ts';
import { pageOf, pageQuery } from '../fields/paging.ts';
import {
  createCredentialBody,
  credential,
  credentialIssueResult,
  rotateCredentialBody,
} from '../resources/credential.ts';
import { waitSeconds } from '../resources/first-beat.ts';
import { createProjectBody, project, updateProjectBody } from '../resources/project.ts';
import { statusFeed } from '../resources/status-feed.ts';
import { operation } from './operation.ts';

const projectParams = z.strictObject({ projectId: identifier });
const credentialParams = z.strictObject({ credentialId: identifier });
const projects = { tag: 'Projects', project: 'none' } as const;
const credentials = { tag: 'Credentials', project: 'required', preset: 'owner' } as const;
const other = { tag: 'Service', preset: 'read' } as const;

export const organizationOperations = {
  listProjects: operation({
    ...projects,
    operationId: 'listProjects',
    method: 'GET',
    path: '/v1/projects',
    summary: 'List projects',
    description: 'With an API credential: its own project alone.',
    preset: 'read',
    query: z.strictObject(pageQuery),
    success: 200,
    response: pageOf(project),
  }),
  createProject: operation({
    ...projects,
    operationId: 'createProject',
    method: 'POST',
    path: '/v1/projects',
    summary: 'Create a project',
    description: 'For owners and the operator. Names are unique, ignoring case and extra spaces.',
    preset: 'owner_or_operator',
    body: createProjectBody,
    idempotent: true,
    etag: 'project',
    success: 201,
    response: project,
  }),
  getProject: operation({
    ...projects,
    operationId: 'getProject',
    method: 'GET',
    path: '/v1/projects/{projectId}',
    summary: 'Get a project',
    preset: 'read',
    params: projectParams,
    etag: 'project',
    success: 200,
    response: project,
  }),
  updateProject: operation({
    ...projects,
    operationId: 'updateProject',
    method: 'PATCH',
    path: '/v1/projects/{projectId}',
    summary: 'Rename a project',
    description: 'For owners.',
    preset: 'owner',
    params: projectParams,
    body: updateProjectBody,
    ifMatch: 'project',
    etag: 'project',
    success: 200,
    response: project,
  }),
  listCredentials: operation({
    ...credentials,
    operationId: 'listCredentials',
    method: 'GET',
    path: '/v1/credentials',
    summary: 'List API credentials',
    description: 'For owners. A revoked credential can be read for 30 days.',
    query: z.strictObject(pageQuery),
    success: 200,
    response: pageOf(credential),
  }),
  createCredential: operation({
    ...credentials,
    operationId: 'createCredential',
    method: 'POST',
    path: '/v1/credentials',
    summary: 'Create an API credential',
    description: 'For owners. The secret is shown once.',
    body: createCredentialBody,
    idempotent: true,
    etag: 'credential',
    success: 201,
    response: credentialIssueResult,
  }),
  getCredential: operation({
    ...credentials,
    operationId: 'getCredential',
    method: 'GET',
    path: '/v1/credentials/{credentialId}',
    summary: 'Get an API credential',
    description: 'For owners.',
    params: credentialParams,
    etag: 'credential',
    success: 200,
    response: credential,
  }),
  revokeCredential: operation({
    ...credentials,
    operationId: 'revokeCredential',
    method: 'DELETE',
    path: '/v1/credentials/{credentialId}',
    summary: 'Revoke an API credential',
    description: 'For owners. It stops everywhere within five seconds.',
    params: credentialParams,
    ifMatch: 'credential',
    success: 204,
  }),
  rotateCredential: operation({
    ...credentials,
    operationId: 'rotateCredential',
    method: 'POST',
    path: '/v1/credentials/{credentialId}/rotate',
    summary: 'Rotate the secret of an API credential',
    description: 'For owners. The old secret ends at once, or after `overlapSeconds`.',
    params: credentialParams,
    body: rotateCredentialBody,
    bodyOptional: true,
    idempotent: true,
    ifMatch: 'credential',
    etag: 'credential',
    success: 200,
    response: credentialIssueResult,
  }),
  getStatusFeed: operation({
    ...other,
    operationId: 'getStatusFeed',
    method: 'GET',
    path: '/v1/status-feed',
    summary: 'Follow the state of monitors',
    description:
      'Every monitor whose visible state changed after `cursor`, held open up to `waitSeconds`. Never skips a change. Without a cursor: every monitor. The operator sees all projects, others their own.',
    project: 'optional',
    query: z.strictObject({ ...pageQuery, waitSeconds }),
    success: 200,
    response: statusFeed,
  }),
  getOpenApi: operation({
    ...other,
    operationId: 'getOpenApi',
    method: 'GET',
    path: '/v1/openapi.json',
    summary: 'Get the contract',
    description:
      'This document. It is public at `/docs/openapi.json`, with a page for people over it at `/docs`.',
    project: 'none',
    success: 200,
    response: z.record(z.string(), z.unknown()),
  }),
};
