// The OpenAPI document and the public pages under /docs (src/api/docs/page.ts lists them). The document is an operation
// too, /v1/openapi.json, which needs a credential as every operation does.
import helmet, { type FastifyHelmetOptions } from '@fastify/helmet';
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { type ComposedPaths, completePaths, documentFrame } from '../../contract/openapi/openapi-document.ts';
import { notFound } from '../../domain/problem.ts';
import type { ServiceContext } from '../../service/calls/context.ts';
import { beatsPage } from '../docs/guides/beats-page.ts';
import { deadlinesPage } from '../docs/guides/deadlines-page.ts';
import { limitsPage } from '../docs/guides/limits-page.ts';
import { quickstartPage } from '../docs/guides/quickstart-page.ts';
import { retentionPage } from '../docs/guides/retention-page.ts';
import { statesPage } from '../docs/guides/states-page.ts';
import { STYLE } from '../docs/page.ts';
import { problemListPage, problemPage } from '../docs/problem-pages.ts';
import { type ReferenceDocument, referencePage } from '../docs/reference-page.ts';
import { readTryScript, tryPage } from '../docs/try-page.ts';
import { webhooksPage } from '../docs/webhooks-page.ts';
import type { Handlers } from '../operation.ts';

/** What the pages say of this installation. */
type Installation = Pick<ServiceContext, 'publicUrl' | 'minimumIntervalSeconds' | 'findPlan'>;

const CACHE = 'public, max-age=300';

/** Registers the pages, and the plug-in that composes the document. Call it before any operation is registered. */
export async function registerDocs(app: FastifyInstance, installation: Installation): Promise<void> {
  await registerOpenApi(app, installation.publicUrl);
  let text = '';
  let reference = '';
  let limits = '';
  app.addHook('onReady', async () => {
    text = JSON.stringify(app.swagger());
    // The pages read a part of it, as callers do.
    const described: ReferenceDocument = JSON.parse(text);
    reference = referencePage(described);
    limits = limitsPage(described, installation.findPlan);
  });
  // These do not depend on the document.
  const pages = new Map<string, string>([
    ['/docs/quickstart', await quickstartPage(installation.publicUrl)],
    ['/docs/beats', beatsPage()],
    ['/docs/states', statesPage()],
    ['/docs/deadlines', deadlinesPage(installation.minimumIntervalSeconds)],
    ['/docs/retention', retentionPage()],
    ['/docs/webhooks', await webhooksPage()],
    ['/docs/problems', problemListPage()],
  ]);
  await app.register(async (docs) => {
    await docs.register(helmet, policy({}));
    docs.get('/docs/openapi.json', async (_request, reply) =>
      send(reply, 'application/json; charset=utf-8', text),
    );
    docs.get('/docs', async (_request, reply) => send(reply, HTML, reference));
    docs.get('/docs/limits', async (_request, reply) => send(reply, HTML, limits));
    for (const [path, content] of pages) {
      docs.get(path, async (_request, reply) => send(reply, HTML, content));
    }
    docs.get('/docs/style.css', async (_request, reply) => send(reply, 'text/css; charset=utf-8', STYLE));
    docs.get<{ Params: { code: string } }>('/docs/problems/:code', async (request, reply) => {
      const found = problemPage(request.params.code);
      if (found === undefined) throw notFound();
      return send(reply, HTML, found);
    });
  });
  await registerTryPage(app);
}

/** The one page with a script, which may call this service and nothing else. */
async function registerTryPage(app: FastifyInstance): Promise<void> {
  const content = tryPage();
  const script = await readTryScript();
  await app.register(async (docs) => {
    await docs.register(helmet, policy({ scriptSrc: ["'self'"], connectSrc: ["'self'"] }));
    docs.get('/docs/try', async (_request, reply) => send(reply, HTML, content));
    docs.get('/docs/try.js', async (_request, reply) =>
      send(reply, 'text/javascript; charset=utf-8', script),
    );
  });
}

/** Nothing but the style sheet, and what a page needs more. */
function policy(more: Record<string, string[]>): FastifyHelmetOptions {
  const directives = {
    defaultSrc: ["'none'"],
    styleSrc: ["'self'"],
    ...more,
    baseUri: ["'none'"],
    formAction: ["'none'"],
  };
  return { contentSecurityPolicy: { useDefaults: false, directives } };
}

type OpenApi = NonNullable<FastifyDynamicSwaggerOptions['openapi']>;

/** Registers the plug-in that composes the document from the schemas of the routes. */
async function registerOpenApi(app: FastifyInstance, publicUrl: string): Promise<void> {
  const frame = documentFrame(publicUrl);
  await app.register(swagger, {
    openapi: frame as OpenApi,
    // Only operations have tags: beats, pages and health stay out.
    hideUntagged: true,
    stripBasePath: false,
    convertConstToEnum: false,
    transformObject: (composed) => {
      const { paths } = 'openapiObject' in composed ? composed.openapiObject : composed.swaggerObject;
      return { ...frame, paths: completePaths(paths as ComposedPaths) } as OpenApi;
    },
  });
}

export function contractHandlers(app: FastifyInstance): Handlers<'getOpenApi'> {
  return { getOpenApi: async () => ({ body: { ...app.swagger() } }) };
}

const HTML = 'text/html; charset=utf-8';

function send(reply: FastifyReply, type: string, body: string): FastifyReply {
  return reply.type(type).header('cache-control', CACHE).send(body);
}
