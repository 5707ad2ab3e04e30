// The pages over the contract, and a copy of it, public: /docs, /docs/openapi.json, /docs/webhooks, /docs/problems.
import helmet from '@fastify/helmet';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { openApiDocument } from '../../contract/openapi/openapi-document.ts';
import { notFound } from '../../domain/problem.ts';
import { STYLE } from '../docs/page.ts';
import { problemListPage, problemPage } from '../docs/problem-pages.ts';
import { type ReferenceDocument, referencePage } from '../docs/reference-page.ts';
import { webhooksPage } from '../docs/webhooks-page.ts';

const CACHE = 'public, max-age=300';

/** Registers the pages. They are made once, here. */
export async function registerDocs(app: FastifyInstance, publicUrl: string): Promise<void> {
  const document = openApiDocument({ serverUrl: publicUrl });
  const text = JSON.stringify(document);
  // The document has more than this page reads.
  const reference = referencePage(document as JsonDocument);
  const webhooks = await webhooksPage();
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
    docs.get('/docs/webhooks', async (_request, reply) => send(reply, HTML, webhooks));
    docs.get('/docs/problems', async (_request, reply) => send(reply, HTML, problems));
    docs.get<{ Params: { code: string } }>('/docs/problems/:code', async (request, reply) => {
      const found = problemPage(request.params.code);
      if (found === undefined) throw notFound();
      return send(reply, HTML, found);
    });
  });
}

type JsonDocument = ReturnType<typeof openApiDocument> & ReferenceDocument;
const HTML = 'text/html; charset=utf-8';

function send(reply: FastifyReply, type: string, body: string): FastifyReply {
  return reply.type(type).header('cache-control', CACHE).send(body);
}
