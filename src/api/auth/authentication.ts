// The `Authorization` header -> who calls: an API credential or a session token (docs/contract/tenancy.md).
import { ProblemError } from '../../domain/problem.ts';
import type { Organization } from '../../store/tenancy/organizations.ts';
import type { Principal } from './principal.ts';

export interface Authenticated {
  principal: Principal;
  organization: Organization;
}

/** Throws `authentication_required`, `temporarily_unavailable` while an issuer or the database can't be reached. */
export type Authenticate = (authorization: string | undefined) => Promise<Authenticated>;

export interface Authenticators {
  /** For tokens that begin with `bkc_`. */
  credential: (token: string) => Promise<Authenticated>;
  /** For every other token. */
  session: (token: string) => Promise<Authenticated>;
}

// Longer than any token of ours or of a usual issuer; Node bounds all headers together at 16 KiB.
const MAX_TOKEN = 8_192;

export function createAuthenticate(authenticators: Authenticators): Authenticate {
  return async (authorization) => {
    const token = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(authorization?.trim() ?? '')?.[1];
    if (!token || token.length > MAX_TOKEN) throw authenticationRequired();
    return await (token.startsWith('bkc_')
      ? authenticators.credential(token)
      : authenticators.session(token));
  };
}

/** One sentence for every reason: a stranger must not learn what was nearly right. */
export function authenticationRequired(cause?: unknown): ProblemError {
  return new ProblemError('authentication_required', {
    detail: 'Send a valid API credential or session token in the header Authorization: Bearer <token>.',
    cause,
  });
}
