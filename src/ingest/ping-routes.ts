// The /ping addresses (docs/contract/beats.md): every form that cron monitoring clients send, answered after the beat is
// durable. Answers are text, or JSON and problem bodies for clients that accept JSON. No credential: the address is the
// secret.
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  type BeatInput,
  jsonBeat,
  kindOfSuffix,
  MAX_MESSAGE_CHARACTERS,
  messageOf,
  movesDeadline,
  plainBeat,
  type RefusedBeat,
  refusedBeat,
} from '../domain/beat-input.ts';
import { UUID_PATTERN } from '../domain/id.ts';
import { PROBLEMS, ProblemError } from '../domain/problem.ts';
import { type BeatAnswer, unknownAddress } from './apply-items.ts';
import { unavailable } from './batch-writer.ts';
import type { Batcher } from './batcher.ts';
import { BODY_TIME_MS, readJsonText, readMessageText } from './body-reader.ts';
import type { DirectoryEntry } from './monitor-directory.ts';
import type { OpenBeat, OpenBeats } from './open-beats.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Of a request for a publish address. */
    openBeat?: OpenBeat;
  }
}

/** As `MonitorDirectory` has them. `beat`: who asks. */
interface BeatDirectory {
  peek: (address: string, beat: OpenBeat) => DirectoryEntry | undefined;
  load: (address: string, beat: OpenBeat) => Promise<DirectoryEntry | undefined>;
}

export interface PingDeps {
  directory: BeatDirectory;
  batcher: Pick<Batcher, 'submit'>;
  openBeats: Pick<OpenBeats, 'begin' | 'end' | 'refuse'>;
  /** How long to wait for a body; default 30 s. */
  bodyTimeMs?: number;
  /** How long a request may have lain unread, in ms; default 0. */
  waitedMs?: (request: IncomingMessage) => number;
  /** Counts answers by outcome: `accepted`, or the code of the problem. */
  onOutcome?: (outcome: string) => void;
}

interface PingRequest {
  Params: { address: string; suffix?: string };
  Querystring: { rid?: string | string[] };
}

const METHODS = ['GET', 'HEAD', 'POST'] as const;
const IDEMPOTENCY_KEY = /^[A-Za-z0-9][A-Za-z0-9._~:/+-]{0,254}$/;

/** Registers the addresses on `app`. Bodies are read as streams, by this room. */
export function registerPing(app: FastifyInstance, deps: PingDeps): void {
  app.register(
    async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
      scope.decorateRequest('openBeat', undefined);
      scope.addHook('onRequest', (request, reply, done) => {
        request.openBeat = beginBeat(deps.openBeats, request as FastifyRequest<PingRequest>);
        simplifyContentType(request);
        setPingHeaders(reply);
        done();
      });
      const handler = (request: FastifyRequest<PingRequest>, reply: FastifyReply) =>
        ping(deps, request, reply);
      // Clients of the de-facto interface may send a trailing slash.
      for (const url of ['/:address', '/:address/', '/:address/:suffix']) {
        scope.route<PingRequest>({ method: [...METHODS], url, handler, bodyLimit: Number.MAX_SAFE_INTEGER });
      }
      // Senders get every refusal in the form they read, also for an unknown method or path.
      scope.setNotFoundHandler((request, reply) => refuse(deps, request, reply, notFound(request)));
    },
    { prefix: '/ping' },
  );
}

/** Undefined where the answer is 404 or 405 whatever the database says. */
function beginBeat(
  openBeats: PingDeps['openBeats'],
  request: FastifyRequest<PingRequest>,
): OpenBeat | undefined {
  if (request.is404) return undefined;
  const path = kindOfSuffix(request.params.suffix);
  const address = request.params.address.toLowerCase();
  if (!path || !UUID_PATTERN.test(address)) return undefined;
  // Without a kind in the address the body may have one.
  return openBeats.begin(address, path.kind === undefined || movesDeadline(path.kind));
}

/** The framework refuses types that it can't read; here a body of any type but JSON is a message. */
function simplifyContentType({ raw }: FastifyRequest): void {
  const type = raw.headers['content-type'];
  if (type === undefined) return;
  raw.headers['content-type'] = /^application\/json\s*(;|$)/i.test(type)
    ? 'application/json'
    : 'application/octet-stream';
}

/** On every answer. A cache must not answer for us: that beat would be lost. */
function setPingHeaders(reply: FastifyReply): void {
  reply.header('ping-body-limit', MAX_MESSAGE_CHARACTERS).header('cache-control', 'no-store');
}

/**
 * Refuses, in text, a path under /ping that the router can't read (a bad escape, an overlong address). False for other
 * paths and for senders that accept JSON: the api makes the problem body.
 */
export function refuseUnreadable(
  request: FastifyRequest,
  reply: FastifyReply,
  problem: ProblemError,
): boolean {
  if (!request.url.startsWith('/ping/')) return false;
  setPingHeaders(reply);
  if (wantsJson(request)) return false;
  sendText(reply, problem);
  return true;
}

function notFound(request: FastifyRequest): ProblemError {
  const path = request.url.split('?')[0] ?? '';
  const isAddress = /^\/ping\/[^/]+(\/[^/]*)?$/.test(path);
  if (!isAddress || METHODS.some((method) => method === request.method)) return unknownAddress();
  return new ProblemError('method_not_allowed', {
    detail: `Use ${METHODS.join(', ')} here.`,
    allow: [...METHODS],
  });
}

async function ping(
  deps: PingDeps,
  request: FastifyRequest<PingRequest>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  try {
    const answer = await beat(deps, request, reply);
    if (request.openBeat) deps.openBeats.end(request.openBeat);
    deps.onOutcome?.('accepted');
    if (!wantsJson(request)) return reply.type('text/plain; charset=utf-8').send('OK');
    const { violations = [], ...recorded } = answer;
    return reply.send({ accepted: true, ...recorded, violations });
  } catch (error) {
    return refuse(deps, request, reply, error);
  }
}

function wantsJson({ headers }: FastifyRequest): boolean {
  return headers.accept?.toLowerCase().includes('application/json') ?? false;
}

/** Sends text, or throws: the api's error handler makes the problem body. */
function refuse(deps: PingDeps, request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  const problem = toProblem(error);
  deps.onOutcome?.(problem.code);
  // A fault of ours is no answer to the beat. Any other refusal is: the batch has moved the deadline where it counts.
  if (request.openBeat) {
    if (problem.status >= 500) deps.openBeats.refuse(request.openBeat);
    else deps.openBeats.end(request.openBeat);
  }
  if (problem.code === 'internal_error') request.log.error({ err: error }, 'A beat could not be recorded.');
  if (wantsJson(request)) throw problem;
  return sendText(reply, problem);
}

async function beat(
  deps: PingDeps,
  request: FastifyRequest<PingRequest>,
  reply: FastifyReply,
): Promise<BeatAnswer> {
  const { openBeat } = request;
  const path = kindOfSuffix(request.params.suffix);
  if (!path && UUID_PATTERN.test(request.params.address.toLowerCase())) throw unknownSuffix();
  if (!path || !openBeat) throw unknownAddress();
  const { address, arrivedAt } = openBeat;
  openBeat.isReading = hasBody(request);
  const entry = deps.directory.peek(address, openBeat) ?? (await findEntry(deps.directory, openBeat));
  if (!entry) throw unknownAddress();
  const readingAt = performance.now();
  const input = await readBeat(deps, request, reply, path);
  openBeat.isReading = false;
  // Unless the body took so long that its excuse was entered: that one stays.
  if (!movesDeadline(input.kind)) deps.openBeats.end(openBeat);
  const idempotencyKey = idempotencyKeyOf(request);
  const isBadKey = idempotencyKey instanceof ProblemError;
  const item = {
    entry,
    beat: isBadKey ? { kind: input.kind, problem: idempotencyKey } : input,
    idempotencyKey: isBadKey ? undefined : idempotencyKey,
  };
  // The patience begins with the arrival, but the body takes the sender's own time.
  const waitedMs = deps.waitedMs?.(request.raw) ?? 0;
  const outcome = await deps.batcher.submit(item, waitedMs + readingAt - arrivedAt);
  if ('problem' in outcome) throw outcome.problem;
  return outcome.answer;
}

/** Said of every address, so that nobody learns which ones exist. */
function unknownSuffix(): ProblemError {
  return new ProblemError('not_found', {
    detail:
      'After the address may stand nothing, /start, /fail, /log, or an exit status from /0 to /255. No beat was recorded.',
  });
}

async function findEntry(directory: BeatDirectory, openBeat: OpenBeat): Promise<DirectoryEntry | undefined> {
  try {
    return await directory.load(openBeat.address, openBeat);
  } catch (error) {
    throw unavailable(error);
  }
}

/** The batch moves the deadline for a refused beat too. */
async function readBeat(
  { bodyTimeMs = BODY_TIME_MS }: PingDeps,
  request: FastifyRequest<PingRequest>,
  reply: FastifyReply,
  path: NonNullable<ReturnType<typeof kindOfSuffix>>,
): Promise<BeatInput | RefusedBeat> {
  const { rid } = request.query;
  if (!hasBody(request)) return plainBeat(path, rid);
  const isJson = request.headers['content-type'] === 'application/json';
  try {
    const { text, unfinished } = isJson
      ? await readJsonText(request.raw, bodyTimeMs)
      : await readMessageText(request.raw, bodyTimeMs);
    if (unfinished) reply.header('connection', 'close');
    return isJson ? jsonBeat(path, rid, text) : plainBeat(path, rid, messageOf(text));
  } catch (error) {
    if (!request.raw.complete) reply.header('connection', 'close');
    if (error instanceof ProblemError) return refusedBeat(path, error);
    throw error;
  }
}

/** The body of another method is ignored. */
function hasBody({ method, headers }: FastifyRequest): boolean {
  if (method !== 'POST') return false;
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

function idempotencyKeyOf(request: FastifyRequest): string | undefined | ProblemError {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && IDEMPOTENCY_KEY.test(key)) return key;
  const message = 'Use 1 to 255 letters, digits or . _ ~ : / + -, beginning with a letter or digit.';
  return new ProblemError('validation_failed', {
    detail: `The Idempotency-Key is not valid. ${message}`,
    fieldErrors: [{ path: 'Idempotency-Key', code: 'invalid_format', message }],
  });
}

function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return new ProblemError('internal_error', { detail: 'The beat could not be recorded.', cause: error });
}

function sendText(reply: FastifyReply, problem: ProblemError): FastifyReply {
  const { retryAfterSeconds, detail, allow } = problem.options;
  if (allow) reply.header('allow', allow.join(', '));
  if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds);
  const { title } = PROBLEMS[problem.code];
  // Some details begin with their title.
  const text = detail.startsWith(title) ? detail : `${title}. ${detail}`;
  return reply.code(problem.status).type('text/plain; charset=utf-8').send(`${text}\n`);
}
