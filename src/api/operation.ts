// The frame of every operation under /v1: a route for each handler, from the table of the contract. The frame
// authenticates, admits, parses, guards against concurrent duplicates and answers. A handler does only what is special
// to its operation.
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { constants, createGzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type EtagKind, formatEtag } from '../contract/fields/headers.ts';
import { routeSchema } from '../contract/openapi/openapi-document.ts';
import type { InputOf, OperationSpec, ResultOf } from '../contract/operations/operation.ts';
import type { OperationId, Operations } from '../contract/operations/operations.ts';
import { parseRequest } from '../contract/operations/request.ts';
import type { Actor } from '../domain/incident.ts';
import { notFound } from '../domain/problem.ts';
import { personIdOf } from '../service/callbacks/relay.ts';
import type { Caller, ServiceContext } from '../service/calls/context.ts';
import { type Homes, type SharedHome, shareHomes } from '../service/calls/homes.ts';
import { fingerprintOf, type RunningKeys } from '../service/calls/idempotency.ts';
import { createWrite, type Write } from '../service/calls/write.ts';
import type { Database, Pool } from '../store/postgres/pool.ts';
import type { IdempotencyGuard, KeptAnswer, Replay } from '../store/tenancy/idempotency.ts';
import { type AuditedChange, writeAudit } from '../telemetry/audit.ts';
import type { Admission, Admit } from './auth/admission.ts';
import type { Principal } from './auth/principal.ts';
import { type CallPlace, type FindPlace, placeFinder } from './call-databases.ts';
import { accepts } from './http/headers.ts';
import type { CallHolder, OpenCalls } from './http/open-calls.ts';
import { readTarget, wireBytesOf } from './http/request.ts';

/**
 * A success: the body that the contract describes, and the version for the `ETag`. Status, kind of ETag and media type
 * come from the contract.
 */
export type Answer<Spec> = Content<Spec> &
  (Spec extends { etag: EtagKind } ? { version: number } : object) &
  (Spec extends { audited: true }
    ? {
        /** For the log; undefined or empty when nothing changed. `actor`: default is the caller. */
        audit: Audited | readonly Audited[] | undefined;
      }
    : object);
type Audited = AuditedChange & { actor?: Actor };
type Content<Spec> = Spec extends { streams: infer Types }
  ? { stream: Readable /** Default: the first one. */; mediaType?: keyof Types }
  : Spec extends { response: object }
    ? { body: ResultOf<Spec> }
    : { body?: undefined };

/** The answer to a write. */
export type WriteAnswer<Spec> = Answer<Spec> &
  (Spec extends { idempotent: true }
    ? {
        /** The body of a replay, where it differs: it has no secrets. */
        replayBody?: ResultOf<Spec>;
      }
    : object);

export interface Call<Spec> {
  /** Parsed by the contract, with defaults filled in. */
  input: InputOf<Spec>;
  caller: Caller;
  principal: Principal;
  context: ServiceContext;
  /** The database that the call reads and writes, in turns with other projects. Found before a transaction opens. */
  db: Database;
  /** That has `db`. */
  home: SharedHome;
  /** All databases, for lists. */
  homes: Homes;
  /** For every write: one transaction, under the call's idempotency key where the operation has one. */
  write: Write<WriteAnswer<Spec>>;
  /** Aborts when the caller leaves or the service drains: a held call then answers at once. */
  signal: AbortSignal;
  /** The value of the header `Accept`. */
  accept: string | undefined;
  /** Throws when the caller may not call any more: an answer that takes long must not outlive a credential. */
  requireStillAdmitted: () => Promise<void>;
}

/** Returns a success, or the replay that `write` found. It throws refusals as ProblemError. */
export type Handler<Spec> = (call: Call<Spec>) => Promise<Answer<Spec> | Replay>;
export type Handlers<Ids extends OperationId> = { [Id in Ids]: Handler<Operations[Id]> };

export interface FrameDeps {
  context: ServiceContext;
  admit: Admit;
  runningKeys: RunningKeys;
  openCalls: OpenCalls;
  /** The share that a holder of calls has of a database. */
  shareOf: (pool: Pool, holder: string) => Database;
}

export interface OperationDeps extends FrameDeps {
  operations: Operations;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for operations of the contract, before the body is read. */
    admission: Admission | undefined;
  }
}

/** Registers a route for each handler. */
export function registerOperations<Ids extends OperationId>(
  app: FastifyInstance,
  deps: OperationDeps,
  handlers: Handlers<Ids>,
): void {
  for (const id of Object.keys(handlers) as Ids[]) {
    registerOperation(app, deps, deps.operations[id], handlers[id]);
  }
}

export function registerOperation<Spec extends OperationSpec>(
  app: FastifyInstance,
  deps: FrameDeps,
  spec: Spec,
  handler: Handler<Spec>,
): void {
  app.route({
    method: spec.method,
    url: spec.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    config: { rawBody: spec.rawBody, maxBodyBytes: spec.maxBodyBytes },
    ...(spec.maxBodyBytes === undefined ? {} : { bodyLimit: wireBytesOf(spec.maxBodyBytes) }),
    // Only for the OpenAPI document: the contract validates, and answers are serialized before they are sent.
    schema: routeSchema(spec.operationId),
    validatorCompiler: () => () => true,
    serializerCompiler: () => (data) => JSON.stringify(data),
    // Before the body is read: bytes of an unknown caller get no buffer.
    onRequest: async (request) => {
      // `/v1/projects/` is not a project with an empty id.
      if (Object.values(request.params ?? {}).includes('')) throw notFound();
      request.admission = await deps.admit(spec, request);
    },
    handler: async (request, reply) => {
      const { admission } = request;
      if (!admission) throw notFound();
      const holder = holderOf(admission);
      const open = deps.openCalls.begin(spec, holder);
      const leave = () => open.abort();
      reply.raw.once('close', leave);
      try {
        const input = readInput(spec, request);
        const homes = shareHomes(deps.context.databases, (pool) => deps.shareOf(pool, holder.project));
        const findPlace = placeFinder(homes, admission.caller.projectId, input);
        const guard = guardOf(spec, request, { admission, context: deps.context });
        const callIn = (home: SharedHome): Call<Spec> => ({
          input,
          caller: admission.caller,
          principal: admission.principal,
          context: deps.context,
          db: home.db,
          home,
          homes,
          write: createWrite({ pool: home.db, guard, keep: (answer) => toKeptAnswer(spec, answer) }),
          signal: open.signal,
          accept: request.headers.accept,
          requireStillAdmitted: async () => {
            await deps.admit(spec, request, { again: admission });
          },
        });
        const answer = await guarded(deps.runningKeys, { findPlace, guard }, ({ run }) =>
          run((home) => handler(callIn(home))),
        );
        audit(request, admission.caller, answer);
        return await send(reply, spec, answer);
      } finally {
        reply.raw.off('close', leave);
        deps.openCalls.end(open);
      }
    },
  });
}

/** Whose share of the open calls it is. The operator has one of its own, in whichever project it acts. */
function holderOf({ principal, caller, scopeId }: Admission): CallHolder {
  const { kind, id } = caller.actor;
  return {
    project: principal.role === 'operator' ? 'operator' : scopeId,
    principal: `${caller.organizationId} ${kind} ${id}`,
  };
}

function readInput<Spec extends OperationSpec>(spec: Spec, request: FastifyRequest): InputOf<Spec> {
  return parseRequest(spec, {
    params: request.params,
    query: readTarget(request.raw.url).query,
    body: request.body,
    headers: request.headers,
  });
}

/**
 * A replay is answered before the handler runs, so that nothing that the handler checks can refuse it. Many replays may
 * run at once; the first call with a key runs alone. `write` finds an answer that commits between the two.
 */
async function guarded<Result>(
  runningKeys: RunningKeys,
  { findPlace, guard }: { findPlace: FindPlace; guard: IdempotencyGuard | undefined },
  callIn: (place: CallPlace) => Promise<Result>,
): Promise<Result | Replay> {
  if (guard) runningKeys.refuseDuplicate(guard);
  const found = await findPlace(guard);
  if ('replay' in found) return found;
  return guard ? await runningKeys.only(guard, () => callIn(found)) : await callIn(found);
}

function guardOf(
  spec: OperationSpec,
  request: FastifyRequest,
  { admission, context }: { admission: Admission; context: ServiceContext },
): IdempotencyGuard | undefined {
  const key = request.headers['idempotency-key'];
  if (!spec.idempotent || typeof key !== 'string') return undefined;
  const { path, pairs } = readTarget(request.raw.url);
  const body = spec.bodyOptional ? (request.body ?? {}) : request.body;
  const caller = spec.preset === 'session' ? personIdOf(admission.caller) : undefined;
  return {
    scopeId: admission.scopeId,
    key,
    secrets: context.secrets,
    fingerprint: fingerprintOf({ method: spec.method, path, query: pairs, body, caller }),
  };
}

/** The answer to any operation. */
interface AnyAnswer {
  body?: unknown;
  replayBody?: unknown;
  stream?: Readable;
  mediaType?: string;
  version?: number;
  audit?: Audited | readonly Audited[];
}

/** After the commit. A replay has changed nothing. */
function audit(request: FastifyRequest, { actor, requestId }: Caller, answer: AnyAnswer | Replay): void {
  if ('replay' in answer) return;
  for (const change of [answer.audit ?? []].flat()) writeAudit(request.log, { actor, requestId, ...change });
}

async function send(
  reply: FastifyReply,
  spec: OperationSpec,
  answer: AnyAnswer | Replay,
): Promise<FastifyReply> {
  const { status, headers, body } = 'replay' in answer ? replayed(answer) : toWire(spec, answer);
  reply.code(status).headers(headers);
  if ('stream' in answer) return await sendStream(reply, spec, answer);
  if (body === undefined) return reply.send();
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/**
 * Resolves when the stream is sent or the caller has left, which makes Fastify destroy the stream. A stream that fails
 * breaks the connection: its caller sees that the answer has no end. The answer to HEAD needs none of it.
 */
async function sendStream(
  reply: FastifyReply,
  { streams = {} }: OperationSpec,
  { stream, mediaType = Object.keys(streams)[0] }: AnyAnswer,
): Promise<FastifyReply> {
  reply.type(mediaType ?? '');
  if (reply.request.method === 'HEAD') {
    stream?.destroy();
    return reply.send();
  }
  reply.send(stream && compressed(reply, stream));
  await finished(reply.raw).catch(() => undefined);
  return reply;
}

/** By gzip where `Accept-Encoding` names it. What is written can be read at once: a stream may say nothing more for long. */
function compressed(reply: FastifyReply, stream: Readable): Readable {
  reply.header('vary', [reply.getHeader('vary') ?? [], 'Accept-Encoding'].flat().join(', '));
  const encodings = reply.request.headers['accept-encoding'];
  if (typeof encodings !== 'string' || encodings === '' || !accepts(encodings, 'gzip')) return stream;
  reply.header('content-encoding', 'gzip');
  const gzip = createGzip({ level: constants.Z_BEST_SPEED, flush: constants.Z_SYNC_FLUSH });
  // One that breaks off breaks the other off. A caller who leaves is no failure of the stream.
  stream.once('error', (error) => gzip.destroy(error));
  stream.once('close', () => stream.readableEnded || gzip.destroy());
  gzip.once('close', () => stream.destroy());
  return stream.pipe(gzip);
}

function toWire({ etag, success }: OperationSpec, { body, version }: AnyAnswer): KeptAnswer {
  const headers: Record<string, string> =
    etag && version !== undefined ? { etag: formatEtag(etag, version) } : {};
  return { status: success, headers, body };
}

function toKeptAnswer(spec: OperationSpec, answer: AnyAnswer): KeptAnswer {
  return toWire(spec, { ...answer, body: answer.replayBody ?? answer.body });
}

/** A replayed 201 is a 200, and `replayed` is true where the body has it. */
function replayed({ replay: { status, headers, body } }: Replay): KeptAnswer {
  const hasMark = typeof body === 'object' && body !== null && 'replayed' in body;
  return {
    status: status === 201 ? 200 : status,
    headers,
    body: hasMark ? { ...body, replayed: true } : body,
  };
}
