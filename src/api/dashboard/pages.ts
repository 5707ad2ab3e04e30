// The pages of the dashboard: files that Vite has built from src/dashboard (docs/contract/dashboard.md). One HTML file serves
// every address; its scripts have their hash in their name and are kept by browsers for a year.
import { mkdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import helmet from '@fastify/helmet';
import files from '@fastify/static';
import type { FastifyInstance } from 'fastify';
import { ProblemError } from '../../domain/problem.ts';

const BUILT = fileURLToPath(new URL('../../../dist/dashboard/', import.meta.url));
const ASSETS = `${BUILT}assets`;

/** Addresses that a browser may be sent to. What stands behind `*` is for the page to read. */
const ADDRESSES = [
  '/',
  '/sign-in',
  '/monitors',
  '/monitors/*',
  '/incidents',
  '/incidents/*',
  '/callbacks',
  '/callbacks/*',
  '/rules',
  '/runs',
  '/settings',
];

export async function registerDashboard(app: FastifyInstance): Promise<void> {
  await app.register(async (scope) => {
    await scope.register(helmet, {
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'self'"],
          objectSrc: ["'none'"],
          baseUri: ["'none'"],
          formAction: ["'self'"],
          frameAncestors: ["'none'"],
        },
      },
      referrerPolicy: { policy: 'same-origin' },
    });
    await mkdir(ASSETS, { recursive: true }).catch(() => undefined); // The plug-in wants it; of an image it is there.
    await scope.register(files, {
      root: ASSETS,
      prefix: '/assets/',
      index: false,
      immutable: true,
      maxAge: '365d',
    });
    for (const address of ADDRESSES) {
      scope.get(address, async (_request, reply) => {
        // Read each time: it names the newest scripts, and a build may come after the start.
        const page = await readFile(`${BUILT}index.html`, 'utf8').catch(() => undefined);
        if (page === undefined) throw notBuilt();
        return reply.type('text/html; charset=utf-8').header('cache-control', 'no-cache').send(page);
      });
    }
  });
}

function notBuilt(): ProblemError {
  return new ProblemError('not_found', {
    detail: 'The dashboard is not built here: run npm run build:dashboard, then load the page again.',
  });
}
