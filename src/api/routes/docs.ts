// The OpenAPI document and the public pages: /docs, /docs/openapi.json, /docs/webhooks, /docs/problems. The document is
// an operation too, /v1/openapi.json, which needs a credential as every operation does.
import helmet from '@fastify/helmet';
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { type ComposedPaths, completePaths, documentFrame } from '../../contract/openapi/openapi-document.ts';
import { notFound } from '../../domain/problem.ts';
import { quickstartPage } from '../docs/guides/quickstart-page.ts';
import { STYLE } from '../docs/page.ts';
import { problemListPage, problemPage } from '../docs/problem-pages.ts';
import { type ReferenceDocument, referencePage } from '../docs/reference-page.ts';
import { webhooksPage } from '../docs/webhooks-page.ts';
import type { Handlers } from '../operation.ts';

const CACHE = 'public, max-age=300';

/** Registers the pages, and the plug-in that composes the document. Call it before any operation is registered. */
export async function registerDocs(app: FastifyInstance, publicUrl: string): Promise<void> {
  await registerOpenApi(app, publicUrl);
  let text = '';
  let reference = '';
  app.addHook('onReady', async () => {
    const document = app.swagger();
    text = JSON.stringify(document);
    // The page reads a part of the document.
    reference = referencePage(document as unknown as ReferenceDocument);
  });
  const webhooks = await webhooksPage();
  const quickstart = await quickstartPage(publicUrl);
  const problems = problemListPage();
  await app.register(async (docs) => {
    await docs.register(helmet, {
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'none'"],
          styleSrc: ["'self'"],
          baseUri: ["'none'"],
          formAction: ["'none'"],
        },
      },
    });
    docs.get('/docs/openapi.json', async (_request, reply) =>
      send(reply, 'application/json; charset=utf-8', text),
    );
    docs.get('/docs', async (_request, reply) => send(reply, HTML, reference));
    docs.get('/docs/style.css', async (_request, reply) => send(reply, 'text/css; charset=utf-8', STYLE));
    docs.get('/docs/quickstart', async (_request, reply) => send(reply, HTML, quickstart));
    docs.get('/docs/webhooks', async (_request, reply) => send(reply, HTML, webhooks));
    docs.get('/docs/problems', async (_request, reply) => send(reply, HTML, problems));
    docs.get<{ Params: { code: string } }>('/docs/problems/:code', async (request, reply) => {
      const found = problemPage(request.params.code);
      if (found === undefined) throw notFound();
      return send(reply, HTML, found);
    });
  });
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
