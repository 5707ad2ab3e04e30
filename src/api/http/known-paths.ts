// Which methods a path has: what a 405 says. It learns the routes as they are registered.
import type { FastifyInstance } from 'fastify';

interface KnownPath {
  pattern: RegExp;
  methods: Set<string>;
}

/** Call before any route is registered. The answer is empty for a path that no route has. */
export function watchPaths(app: FastifyInstance): (path: string) => string[] {
  const paths = new Map<string, KnownPath>();
  app.addHook('onRoute', ({ url, method }) => {
    if (url.includes('*')) return; // the preflight route of the CORS plug-in
    const known = paths.get(url) ?? { pattern: patternOf(url), methods: new Set() };
    paths.set(url, known);
    for (const one of [method].flat()) known.methods.add(one);
  });
  return (path) => {
    const found = [...paths.values()].filter(({ pattern }) => pattern.test(path));
    return [...new Set(found.flatMap(({ methods }) => [...methods]))].sort(byName);
  };
}

function byName(a: string, b: string): number {
  return a < b ? -1 : 1;
}

function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => (part.startsWith(':') ? '[^/]+' : part.replaceAll('.', '\\.')));
  return new RegExp(`^${parts.join('/')}$`);
}
