// Operations on API credentials, for owners. Secrets stand in two answers and in no replay.

import { formatEtag } from '../../contract/fields/headers.ts';
import type { Credential as CredentialBody } from '../../contract/resources/credential.ts';
import { credentialScope } from '../../contract/resources/credential.ts';
import { notFound } from '../../domain/problem.ts';
import type { Answer } from '../../service/calls/write.ts';
import {
  createCredential,
  type IssuedCredential,
  revokeCredential,
  rotateCredential,
} from '../../service/tenancy/credentials.ts';
import { type Credential, findCredential, listCredentials } from '../../store/tenancy/credentials.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';

type CredentialOperations =
  | 'listCredentials'
  | 'createCredential'
  | 'getCredential'
  | 'revokeCredential'
  | 'rotateCredential';

const LIST = 'credentials';

/** `forget`: what this replica knows of a credential is over. Other replicas know within seconds. */
export function credentialHandlers(forget: (credentialId: string) => void): Handlers<CredentialOperations> {
  return {
    async listCredentials({ input: { query }, caller, context }) {
      const rows = await listCredentials(context.pool, caller.projectId, readPage(LIST, query));
      const items = rows.map(({ item, position }) => ({ item: presentCredential(item), position }));
      return presentPage(LIST, query, items);
    },

    async createCredential({ input: { body }, caller, write }) {
      const { expiresAt, ...rest } = body;
      const expiresMs = expiresAt === undefined ? undefined : Date.parse(expiresAt);
      const request = { projectId: caller.projectId, expiresMs, ...rest };
      return await write(
        (tx, nowMs) => createCredential(tx, request, nowMs),
        (issued) => issueAnswer(201, issued),
      );
    },

    async getCredential({ input: { params }, caller, context }) {
      const credential = await findCredential(context.pool, caller.projectId, params.credentialId);
      if (!credential) throw notFound();
      return { status: 200, headers: etag(credential), body: presentCredential(credential) };
    },

    async revokeCredential({ input: { params }, caller, ifMatch, write }) {
      const change = { projectId: caller.projectId, credentialId: params.credentialId, version: ifMatch };
      const answer = await write(
        (tx) => revokeCredential(tx, change),
        () => ({ status: 204 }),
      );
      forget(params.credentialId);
      return answer;
    },

    async rotateCredential({ input: { params, body }, caller, ifMatch, write }) {
      const change = {
        projectId: caller.projectId,
        credentialId: params.credentialId,
        version: ifMatch,
        overlapSeconds: body.overlapSeconds,
      };
      const answer = await write(
        (tx, nowMs) => rotateCredential(tx, change, nowMs),
        (issued) => issueAnswer(200, issued),
      );
      forget(params.credentialId);
      return answer;
    },
  };
}

function issueAnswer(status: number, { credential, secret }: IssuedCredential): Answer {
  const replayBody = { credential: presentCredential(credential), replayed: false };
  return { status, headers: etag(credential), body: { ...replayBody, secret }, replayBody };
}

function etag(credential: Credential): Record<string, string> {
  return { etag: formatEtag('credential', credential.version) };
}

function presentCredential(credential: Credential): CredentialBody {
  return {
    credentialId: credential.credentialId,
    name: credential.name,
    preset: credential.preset,
    scopes: credential.scopes.filter(
      (scope) => credentialScope.safeParse(scope).success,
    ) as CredentialBody['scopes'],
    createdAt: credential.createdAt.toISOString(),
    lastUsedAt: credential.lastUsedAt?.toISOString(),
    expiresAt: credential.expiresAt?.toISOString(),
    revokedAt: credential.revokedAt?.toISOString(),
    version: credential.version,
  };
}
