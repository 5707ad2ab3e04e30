// Admits a call before its body is read: who calls, in which project, with which right, within which rate
// (docs/contract/tenancy.md). What the caller may not see answers 404, never 403: visible-resources.ts.
import type { FastifyRequest } from 'fastify';
import { HEADER } from '../../contract/fields/headers.ts';
import { type OperationSpec, PRESET_ROLES, type Preset } from '../../contract/operations/operation.ts';
import type { Actor } from '../../domain/incident.ts';
import { requireActiveService } from '../../domain/plan.ts';
import { invalidField, notFound, ProblemError } from '../../domain/problem.ts';
import type { Caller } from '../../service/calls/context.ts';
import type { Organization } from '../../store/tenancy/organizations.ts';
import type { Project } from '../../store/tenancy/projects.ts';
import { accepts, decodeHeader, requireValidCorrelationId } from '../http/headers.ts';
import type { RateState } from '../http/rate-limit.ts';
import { type Authenticated, authenticationRequired, type Principal } from './principal.ts';
import type { Named, Requester } from './visible-resources.ts';

export interface Admission {
  principal: Principal;
  caller: Caller;
  /** Owner of idempotency keys and of the rate limit: the project, else the organization. */
  scopeId: string;
}

/** `again`: of a call that is under way. It counts once and keeps its project, whatever that is called by now. */
export type Admit = (
  spec: OperationSpec,
  request: FastifyRequest,
  options?: { again?: Admission },
) => Promise<Admission>;

/** The project of a caller without one: the nil UUID, which no row has. */
export const NO_PROJECT = '00000000-0000-0000-0000-000000000000';

export interface AuthenticationDeps {
  /** Authenticates an API credential, a token that begins with `bkc_`. */
  credential: (token: string) => Promise<Authenticated>;
  /** Authenticates every other token, as a session. */
  session: (token: string) => Promise<Authenticated>;
  /** That of the dashboard, where it has sent the request. */
  cookieToken: (request: FastifyRequest) => string | undefined;
}

export interface AdmissionDeps extends AuthenticationDeps {
  /** By id or name, in the organization of the principal. */
  findProject: (principal: Principal, idOrName: string) => Promise<Project | undefined>;
  /** Counts the call. */
  spend: (scopeId: string, organization: Organization) => RateState;
  /** Throws `not_found` unless the caller may see all that the path of the operation names. */
  requireVisible: (requester: Requester, spec: OperationSpec, named: Named) => Promise<void>;
}

export function createAdmit(deps: AdmissionDeps): Admit {
  return async (spec, request, { again } = {}) => {
    const authenticated = await authenticateRequest(deps, request);
    const { principal, organization } = authenticated;
    requireValidCorrelationId(request);
    const named = again ? projectOf(again) : request.headers['service-project'];
    const projectId = await resolveProject(deps, spec, authenticated, named);
    const scopeId = projectId ?? organization.organizationId;
    // The operator answers for its own pace, and must not be held up by what tenants spend.
    if (principal.role !== 'operator' && !again) {
      request.rate = deps.spend(scopeId, organization);
      if (request.rate.problem) throw request.rate.problem;
    }
    const caller: Caller = {
      actor: actorOf(principal),
      issuer: principal.kind === 'session' ? principal.issuer : undefined,
      organizationId: organization.organizationId,
      projectId: projectId ?? NO_PROJECT,
      mayManage: mayCall(principal, 'manage'),
      isOperator: principal.role === 'operator',
      requestId: request.id,
    };
    if (!mayCall(principal, spec.preset)) {
      const { jurisdiction } = request.query as { jurisdiction?: unknown };
      await deps.requireVisible({ principal, caller }, spec, { params: request.params, jurisdiction });
      throw permissionDenied(principal, spec);
    }
    const types = spec.streams ? Object.keys(spec.streams) : ['application/json'];
    if (!types.some((type) => accepts(request.headers.accept, type))) throw notAcceptable(types);
    if (spec.method !== 'GET' && !spec.changesNothing) requireActiveService(organization.serviceState);
    return { principal, scopeId, caller };
  };
}

const projectOf = ({ caller: { projectId } }: Admission) =>
  projectId === NO_PROJECT ? undefined : projectId;

// Longer than a credential and than the tokens of usual issuers. Node limits all headers together to 16 KiB.
const MAX_TOKEN = 8_192;

/** By `Authorization`, or else by the cookie of the dashboard. Throws `authentication_required`, and as the authenticators do. */
export async function authenticateRequest(
  deps: AuthenticationDeps,
  request: FastifyRequest,
): Promise<Authenticated> {
  const { authorization } = request.headers;
  const token =
    authorization === undefined
      ? deps.cookieToken(request)
      : /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1];
  if (token === undefined) throw authenticationRequired();
  return await authenticateToken(deps, token);
}

/** Throws `authentication_required`, and as the authenticators do. */
export async function authenticateToken(
  { credential, session }: AuthenticationDeps,
  token: string,
): Promise<Authenticated> {
  if (!/^[A-Za-z0-9._~+/=-]+$/.test(token) || token.length > MAX_TOKEN) throw authenticationRequired();
  return await (token.startsWith('bkc_') ? credential(token) : session(token));
}

function mayCall({ kind, role }: Principal, preset: Preset): boolean {
  if (preset === 'session' && kind !== 'session') return false;
  return PRESET_ROLES[preset].includes(role);
}

/** The principal as change records and timelines show it. */
function actorOf(principal: Principal): Actor {
  if (principal.kind === 'credential') {
    return { kind: 'api_credential', id: principal.credentialId, display: principal.name };
  }
  const kind = principal.role === 'operator' ? 'operator' : 'session';
  return { kind, id: principal.subject, display: principal.display };
}

/** The project of the call, where it has one. Throws 404, or 400 where a session must name one but names none. */
async function resolveProject(
  deps: AdmissionDeps,
  spec: OperationSpec,
  { principal }: Authenticated,
  header: string | string[] | undefined,
): Promise<string | undefined> {
  if (principal.kind === 'session' && spec.project === 'none') return undefined;
  const own = principal.kind === 'credential' ? principal.projectId : undefined;
  if (header === undefined) {
    if (own === undefined && spec.project === 'required') throw projectMissing();
    return own;
  }
  const named = typeof header === 'string' ? decodeHeader(header) : undefined;
  if (named === undefined || named === '' || [...named].length > 128) throw projectMissing();
  if (named === own) return own;
  const project = await deps.findProject(principal, named);
  if (!project || (own !== undefined && project.projectId !== own)) throw notFound();
  return project.projectId;
}

function projectMissing(): ProblemError {
  return invalidField(HEADER.project, 'Name one project of the organization, by its id or name.', 'required');
}

/** The refusal of a call whose answer has other media types. */
export function notAcceptable(types: readonly string[]): ProblemError {
  const [type, advice] =
    types.length === 1 ? ['the media type', 'admit it'] : ['the media types', 'admit one of them'];
  return new ProblemError('not_acceptable', {
    detail: `Accept excludes ${types.join(' and ')}, ${type} of the answer: ${advice}.`,
  });
}

const ADVICE = {
  read: 'Ask an owner of the organization for a role.',
  manage: 'This needs a credential with the preset manage, or a session of a member or owner.',
  session: 'This is for people: it needs a session of a viewer, member or owner.',
  owner: 'This needs a session of an owner.',
  owner_or_operator: 'This needs a session of an owner, or the operator.',
  operator: 'This is for the operator alone: it sees the objects of the cluster.',
};

/** Throws `permission_denied` for an origin that anybody but the operator states. */
export function requireMayDeclare({ role }: Principal, { origin }: { origin?: object }): void {
  if (origin === undefined || role === 'operator') return;
  throw new ProblemError('permission_denied', {
    detail: 'The field origin is for the operator alone: leave it out.',
  });
}

function permissionDenied(principal: Principal, spec: OperationSpec): ProblemError {
  const who = principal.kind === 'credential' ? `preset ${principal.preset}` : `role ${principal.role}`;
  return new ProblemError('permission_denied', {
    detail: `The ${principal.kind} has the ${who}. ${ADVICE[spec.preset]}`,
  });
}
