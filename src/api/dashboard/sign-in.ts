// /dashboard/session: a token becomes the cookie of the dashboard, which asks here who is signed in
// (docs/contract/dashboard.md, "Sign-in").
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { decodeJwt } from 'jose';
import { z } from 'zod';
import { parseInput } from '../../contract/fields/field-errors.ts';
import { validationFailed } from '../../contract/operations/request.ts';
import { invalidField, ProblemError } from '../../domain/problem.ts';
import { type AuthenticationDeps, authenticateRequest, authenticateToken } from '../auth/admission.ts';
import type { Authenticated, Principal } from '../auth/principal.ts';
import { registerBody } from '../http/request.ts';
import { isSameOrigin, MOST_COOKIE_TOKEN, type SessionCookie } from './session-cookie.ts';

/** Also of a token that lives for longer. */
const MOST_SESSION_SECONDS = 12 * 3_600;

export interface SignInDeps {
  cookie: SessionCookie;
  authentication: AuthenticationDeps;
}

const signInBody = z.strictObject({ token: z.string().trim().min(1).max(8_192) });

export async function registerSignIn(app: FastifyInstance, deps: SignInDeps): Promise<void> {
  const { cookie, authentication } = deps;
  await app.register(async (scope) => {
    registerBody(scope);
    scope.addHook('onRequest', (_request, reply, done) => {
      reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff');
      done();
    });
    scope.post('/dashboard/session', async (request, reply) => {
      requireSameOrigin(request);
      const parsed = parseInput(signInBody, request.body);
      if ('fieldErrors' in parsed) throw validationFailed(parsed.fieldErrors);
      const { token } = parsed.value;
      await authenticateToken(authentication, token);
      if (token.length > MOST_COOKIE_TOKEN) {
        throw invalidField(
          'token',
          `Must have at most ${MOST_COOKIE_TOKEN} characters: browsers keep no more.`,
        );
      }
      return reply
        .status(204)
        .header('set-cookie', cookie.set(request, token, secondsOf(token)))
        .send();
    });
    scope.get('/dashboard/session', async (request, reply) => {
      const { principal, organization } = await authenticateRequest(authentication, request);
      return reply.send(presentSession(principal, organization));
    });
    scope.delete('/dashboard/session', async (request, reply) => {
      requireSameOrigin(request);
      return reply.status(204).header('set-cookie', cookie.clear(request)).send();
    });
  });
}

/** How long the cookie lives: at most as long as its token. */
function secondsOf(token: string): number {
  if (token.startsWith('bkc_')) return MOST_SESSION_SECONDS;
  const { exp = 0 } = decodeJwt(token);
  return Math.max(0, Math.min(MOST_SESSION_SECONDS, Math.floor(exp - Date.now() / 1_000)));
}

function requireSameOrigin(request: FastifyRequest): void {
  if (isSameOrigin(request)) return;
  throw new ProblemError('permission_denied', {
    detail: 'Only a page of the dashboard itself may sign in or out: open /sign-in in a browser.',
  });
}

function presentSession(principal: Principal, { name }: Authenticated['organization']) {
  const { kind, role } = principal;
  const own =
    principal.kind === 'credential'
      ? { display: principal.name, projectId: principal.projectId }
      : { display: principal.display };
  return { kind, role, ...own, organization: name };
}
