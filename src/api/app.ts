// Builds the HTTP application of the role `api`. It never listens: start-api.ts does.
import type { SecureContextOptions } from 'node:tls';
import cors from '@fastify/cors';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { contractOperations } from '../contract/operations/operations.ts';
import { newId } from '../domain/id.ts';
import { refuseUnreadable } from '../ingest/ping-routes.ts';
import type { ServiceContext } from '../service/calls/context.ts';
import { directoryOf } from '../service/calls/directory.ts';
import { shareHomes } from '../service/calls/homes.ts';
import { RunningKeys } from '../service/calls/idempotency.ts';
import { PoolShares } from '../store/postgres/pool-shares.ts';
import { findProject } from '../store/tenancy/projects.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { type AuthenticationDeps, createAdmit } from './auth/admission.ts';
import { CredentialAuthenticator } from './auth/api-credential.ts';
import { shareOfPrincipal } from './auth/principal.ts';
import { SessionAuthenticator, type TrustedIssuer } from './auth/session-token.ts';
import { requireVisible } from './auth/visible-resources.ts';
import { registerDashboard } from './dashboard/pages.ts';
import { SessionCookie } from './dashboard/session-cookie.ts';
import { registerSignIn } from './dashboard/sign-in.ts';
import { ClientErrors } from './http/client-error.ts';
import { nameRequest, registerCorrelation } from './http/headers.ts';
import { registerLoadShedding } from './http/load-shedding.ts';
import { registerMetrics } from './http/metrics.ts';
import { type OpenCallLimits, OpenCalls } from './http/open-calls.ts';
import { OpenExports } from './http/open-exports.ts';
import { registerProblems, sendProblem, toPathProblem } from './http/problem.ts';
import { registerRateHeaders } from './http/rate-headers.ts';
import { RateLimiter } from './http/rate-limit.ts';
import { MAX_BODY_BYTES, registerBody } from './http/request.ts';
import { makeServer } from './http/server.ts';
import { type OperationDeps, registerOperations } from './operation.ts';
import { billingHandlers } from './routes/billing.ts';
import { callbackHandlers } from './routes/callbacks.ts';
import { credentialHandlers } from './routes/credentials.ts';
import { deliveryHandlers } from './routes/deliveries.ts';
import { contractHandlers, registerDocs } from './routes/docs.ts';
import { exportHandlers } from './routes/export.ts';
import { incidentHandlers } from './routes/incidents.ts';
import { allMonitorHandlers } from './routes/monitor-handlers.ts';
import { projectHandlers } from './routes/projects.ts';
import { registerStripeEvents } from './routes/stripe-events.ts';

/** Who calls is found out in shares of their own: those who are known go on when strangers ask very often. */
const SIGN_IN = { strangers: 'sign-in', known: 'known', sessions: 'sessions' };

/** The share of events about billing. */
const BILLING = 'billing';

export interface AppDeps {
  context: ServiceContext;
  telemetry: Telemetry;
  issuers: readonly TrustedIssuer[];
  /** The one origin whose pages may call the API from a browser. */
  dashboardOrigin?: string;
  /** A process with a longer delay of its event loop refuses calls; 0: never. Default 1,500 ms. */
  maxEventLoopDelayMs?: number;
  /** Serves https with this certificate; default: http. */
  tls?: SecureContextOptions;
  /** Calls that run at the same time; default 2,000 that work and 5,000 that are held open. */
  openCalls?: OpenCallLimits;
  /** Of the endpoint at Stripe, by whose events organizations are billed; undefined: by the values of the installation. */
  stripeWebhookSecret?: string;
  /** Registers routes outside /v1, such as the addresses of beats. */
  mount?: (app: FastifyInstance) => void;
}

/** The application, ready to listen. Closing it ends held calls, finishes running ones and settles counters. */
export async function buildApp(deps: AppDeps): Promise<FastifyInstance> {
  const app = newApp(deps);
  const pool = deps.context.databases.default;
  const openCalls = new OpenCalls(deps.openCalls);
  const shares = new PoolShares();
  const shareOf = (holder: string) => shares.of(pool, holder);
  const directoryFor = (holder: string) => directoryOf(homesFor(holder));
  const homesFor = (holder: string) => shareHomes(deps.context.databases, (one) => shares.of(one, holder));
  const credentials = new CredentialAuthenticator(
    { known: directoryFor(SIGN_IN.known), strangers: directoryFor(SIGN_IN.strangers) },
    shareOf(SIGN_IN.known),
    deps.telemetry.log,
  );
  const sessions = new SessionAuthenticator(directoryFor(SIGN_IN.sessions), deps.issuers);
  const rates = new RateLimiter({ pool, log: deps.telemetry.log, findPlan: deps.context.findPlan });
  const cookie = new SessionCookie(deps.context.publicUrl);
  const authentication: AuthenticationDeps = {
    credential: (token) => credentials.authenticate(token),
    session: (token) => sessions.authenticate(token),
    cookieToken: (request) => cookie.tokenOf(request),
  };
  const operationDeps: OperationDeps = {
    context: deps.context,
    operations: contractOperations({ minimumIntervalSeconds: deps.context.minimumIntervalSeconds }),
    admit: createAdmit({
      ...authentication,
      findProject: async (principal, idOrName) => {
        const read = directoryFor(shareOfPrincipal(principal));
        return (await read((db) => findProject(db, principal.organizationId, idOrName))).found;
      },
      spend: (scopeId, organization) => rates.spend(scopeId, organization),
      requireVisible: (requester, spec, named) =>
        requireVisible(homesFor(shareOfPrincipal(requester.principal)), requester, spec, named),
    }),
    runningKeys: new RunningKeys(),
    openCalls,
    shareOf: (database, holder) => shares.of(database, holder),
  };

  // Also for held calls that began earlier: their callers must not use this connection again.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (openCalls.isDraining || deps.telemetry.readiness.isEnding) reply.header('connection', 'close');
    done();
  });
  registerProblems(app);
  registerCorrelation(app);
  await registerDocs(app, deps.context);
  await registerDashboard(app);
  await registerSignIn(app, { cookie, authentication });
  deps.mount?.(app);
  const { stripeWebhookSecret: webhookSecret } = deps;
  if (webhookSecret !== undefined)
    await registerStripeEvents(app, { ...deps.telemetry, db: shareOf(BILLING), webhookSecret });
  await app.register(async (v1) => {
    await protect(v1, deps);
    registerMetrics(v1, deps.telemetry.registry, { openCalls, shares });
    registerBody(v1);
    registerRateHeaders(v1);
    v1.decorateRequest('admission', undefined);
    registerOperations(v1, operationDeps, contractHandlers(app));
    registerOperations(v1, operationDeps, projectHandlers);
    registerOperations(v1, operationDeps, allMonitorHandlers(deps.context));
    registerOperations(v1, operationDeps, callbackHandlers);
    registerOperations(v1, operationDeps, incidentHandlers);
    registerOperations(v1, operationDeps, deliveryHandlers);
    registerOperations(v1, operationDeps, billingHandlers(webhookSecret === undefined ? 'static' : 'stripe'));
    registerOperations(v1, operationDeps, exportHandlers(new OpenExports()));
    registerOperations(
      v1,
      operationDeps,
      credentialHandlers((id) => credentials.forget(id)),
    );
  });

  app.addHook('onReady', async () => {
    credentials.start();
    rates.start();
  });
  app.addHook('preClose', async () => openCalls.drain());
  app.addHook('onClose', async () => {
    await Promise.all([credentials.stop(), sessions.stop(), rates.stop()]);
  });
  return app;
}

function newApp({ telemetry, tls }: AppDeps): FastifyInstance {
  const log: FastifyBaseLogger = telemetry.log;
  const clientErrors = new ClientErrors();
  const app: FastifyInstance = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => newId('req'),
    bodyLimit: MAX_BODY_BYTES,
    routerOptions: { maxParamLength: 512 },
    serverFactory: (handle) =>
      makeServer((request, response) => {
        clientErrors.begin(response);
        handle(request, response);
      }, tls),
    // While closing, calls on open connections are served, and their answers close the connections.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    frameworkErrors: (error, request, reply) => {
      nameRequest(request, reply);
      const problem = toPathProblem(error, request);
      if (!refuseUnreadable(request, reply, problem)) sendProblem(request, reply, problem);
    },
    clientErrorHandler: (error, socket) => clientErrors.answer(error, socket),
  });
  return app;
}

/** Protects every answer of /v1 from overload, browsers of other origins and caches. */
async function protect(
  v1: FastifyInstance,
  { dashboardOrigin, maxEventLoopDelayMs }: AppDeps,
): Promise<void> {
  await registerLoadShedding(v1, maxEventLoopDelayMs);
  if (dashboardOrigin) {
    await v1.register(cors, {
      origin: [dashboardOrigin],
      credentials: true,
      strictPreflight: false,
      methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      exposedHeaders: [
        'ETag',
        'X-Request-ID',
        'X-Correlation-ID',
        'Retry-After',
        'RateLimit',
        'RateLimit-Policy',
      ],
      maxAge: 600,
    });
  }
  v1.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff');
    done();
  });
}
