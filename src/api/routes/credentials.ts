// API credentials, for owners. Two answers have a secret, and no replay has one.
import { notFound } from '../../domain/problem.ts';
import { optionalTime } from '../../domain/timestamp.ts';
import {
  createCredential,
  type IssuedCredential,
  revokeCredential,
  rotateCredential,
} from '../../service/tenancy/credentials.ts';
import { findCredential, listCredentials } from '../../store/tenancy/credentials.ts';
import type { AuditedChange } from '../../telemetry/audit.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';
import { presentCredential } from '../present/present-tenancy.ts';

type CredentialOperations =
  | 'listCredentials'
  | 'createCredential'
  | 'getCredential'
  | 'revokeCredential'
  | 'rotateCredential';

const LIST = 'credentials';

/** `forget` drops this replica's cached copy of a credential. Other replicas read it again within seconds. */
export function credentialHandlers(forget: (credentialId: string) => void): Handlers<CredentialOperations> {
  return {
    async listCredentials({ input: { query }, caller, db }) {
      const rows = await listCredentials(db, caller.projectId, readPage(LIST, query));
      return { body: presentPage(LIST, query, rows, presentCredential) };
    },

    async createCredential({ input: { body }, caller, write }) {
      const { expiresAt, ...rest } = body;
      const expiresMs = expiresAt === undefined ? undefined : Date.parse(expiresAt);
      const request = { projectId: caller.projectId, expiresMs, ...rest };
      return await write((tx, nowMs) => createCredential(tx, request, nowMs), answerIssued('create'));
    },

    async getCredential({ input: { params }, caller, db }) {
      const credential = await findCredential(db, caller.projectId, params.credentialId);
      if (!credential) throw notFound();
      return { version: credential.version, body: presentCredential(credential) };
    },

    async revokeCredential({ input: { params, ifMatch }, caller, write }) {
      const change = { projectId: caller.projectId, credentialId: params.credentialId, version: ifMatch };
      const answer = await write(
        (tx) => revokeCredential(tx, change),
        (hasEnded) => ({ audit: hasEnded ? audited('revoke', change) : undefined }),
      );
      forget(params.credentialId);
      return answer;
    },

    async rotateCredential({ input: { params, body, ifMatch }, caller, write }) {
      const change = {
        projectId: caller.projectId,
        credentialId: params.credentialId,
        version: ifMatch,
        overlapSeconds: body.overlapSeconds,
      };
      const answer = await write((tx, nowMs) => rotateCredential(tx, change, nowMs), answerIssued('rotate'));
      forget(params.credentialId);
      return answer;
    },
  };
}

const answerIssued =
  (action: 'create' | 'rotate') =>
  ({ credential, secret }: IssuedCredential) => {
    const overlapEndsAt = optionalTime(credential.previousEndsMs);
    const replayBody = { credential: presentCredential(credential), replayed: false, overlapEndsAt };
    return {
      version: credential.version,
      body: { ...replayBody, secret },
      replayBody,
      audit: audited(action, credential),
    };
  };

function audited(
  action: 'create' | 'rotate' | 'revoke',
  { projectId, credentialId }: { projectId: string; credentialId: string },
): AuditedChange {
  return { action: `credential.${action}`, object: { kind: 'credential', id: credentialId, projectId } };
}
