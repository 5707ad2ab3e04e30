// The frame of operations: answers that the compiler refuses, the database of a call, and streamed answers.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { OpenCalls } from '../../../src/api/http/open-calls.ts';
import { type Handler, type Handlers, registerOperation } from '../../../src/api/operation.ts';
import { jurisdiction } from '../../../src/contract/fields/field.ts';
import { operation } from '../../../src/contract/operations/operation.ts';
import { RunningKeys } from '../../../src/service/calls/idempotency.ts';
import { openContext } from '../../../src/service/calls/open-context.ts';
import { openDatabases } from '../../../src/store/postgres/databases.ts';
import type { Pool } from '../../../src/store/postgres/pool.ts';
import { makeConfig } from '../../support/make-config.ts';
import { waitFor } from '../../support/wait-for.ts';

// Compiled and never run. If the compiler accepted one of these answers, its comment would be an error.
const refused: Handlers<'setDefaultCallback' | 'getProject' | 'createProject' | 'deleteMonitor'> = {
  // @ts-expect-error: the contract has no such field.
  setDefaultCallback: async () => ({ body: { endpoint: null } }),
  // @ts-expect-error: the answer carries an ETag, so a version is missing.
  getProject: async () => ({
    body: { projectId: '', name: '', createdAt: '', updatedAt: '', version: 1 },
  }),
  // @ts-expect-error: a time is text.
  createProject: async () => ({
    version: 1,
    body: { projectId: '', name: '', createdAt: new Date(), updatedAt: '', version: 1 },
  }),
  // @ts-expect-error: a 204 has no body.
  deleteMonitor: async () => ({ body: {} }),
};
void refused;

const getLines = operation({
  operationId: 'getLines',
  method: 'GET',
  path: '/v1/lines',
  tag: 'Test',
  summary: 'Lines, one after the other',
  preset: 'read',
  project: 'required',
  query: z.strictObject({ jurisdiction: jurisdiction.optional() }),
  etag: 'project',
  success: 200,
  streams: { 'application/x-ndjson': z.object({ line: z.number() }) },
});

// Two databases, which nothing connects to.
const NOWHERE = 'postgres://127.0.0.1:1/none';
const databases = openDatabases({ databaseUrl: NOWHERE, size: 1, applicationName: 'test' }, [
  { jurisdiction: 'eu', databaseUrl: NOWHERE },
]);
const [main, eu] = databases.homes.map(({ pool }) => pool);

let app: FastifyInstance;
afterEach(() => app.close());

/** Serves `getLines`, to everybody. */
async function serve(handler: Handler<typeof getLines>) {
  const context = { ...openContext(makeConfig(NOWHERE), 'test'), databases };
  const organizationId = 'acme';
  const principal = {
    kind: 'session',
    issuer: 'https://issuer.example',
    subject: 'ada',
    display: 'Ada',
    role: 'viewer',
    organizationId,
  } as const;
  const actor = { kind: 'session', id: 'ada', display: 'Ada' } as const;
  const caller = {
    actor,
    organizationId,
    projectId: 'main',
    mayManage: false,
    isOperator: false,
    requestId: 'request',
  };
  const admit = async () => ({ principal, caller, scopeId: 'main' });
  const openCalls = new OpenCalls();
  app = Fastify();
  app.decorateRequest('admission', undefined);
  registerOperation(
    app,
    { context, admit, runningKeys: new RunningKeys(), openCalls, shareOf: (pool: Pool) => pool },
    getLines,
    handler,
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1/lines`, openCalls };
}

it.each([
  ['', main],
  ['?jurisdiction=us', main],
  ['?jurisdiction=eu', eu],
])('a call with the query "%s" gets the database of its jurisdiction', async (query, database) => {
  const { url } = await serve(async ({ db }) => {
    expect(db).toBe(database);
    return { version: 1, stream: Readable.from([]) };
  });
  expect((await fetch(`${url}${query}`)).status).toBe(200);
});

describe('a streamed answer', () => {
  it('a streamed answer arrives in pieces with the headers of its operation, and counts as open until its end', async () => {
    const rest = Promise.withResolvers<string>();
    async function* lines() {
      yield '{"line":1}\n';
      yield await rest.promise;
    }
    const { url, openCalls } = await serve(async () => ({ version: 7, stream: Readable.from(lines()) }));
    const response = await fetch(url);
    const pieces = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect(await pieces?.read()).toEqual({ done: false, value: '{"line":1}\n' });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    expect(response.headers.get('etag')).toBe('"project-7"');
    expect(openCalls.size).toBe(1);
    rest.resolve('{"line":2}\n');
    expect(await pieces?.read()).toEqual({ done: false, value: '{"line":2}\n' });
    expect((await pieces?.read())?.done).toBe(true);
    await waitFor(() => openCalls.size === 0, { what: 'the call has ended' });
  });

  it('a streamed answer ends when its caller leaves', async () => {
    // It has a first piece and never a second one.
    const stream = new Readable({ read: () => undefined });
    stream.push('{"line":1}\n');
    const left = Promise.withResolvers<AbortSignal>();
    const { url, openCalls } = await serve(async ({ signal }) => {
      left.resolve(signal);
      return { version: 1, stream };
    });
    const client = new AbortController();
    const response = await fetch(url, { signal: client.signal });
    await response.body?.getReader().read();
    const closed = once(stream, 'close');
    client.abort();
    await closed;
    expect(stream.destroyed).toBe(true);
    expect((await left.promise).aborted).toBe(true);
    await waitFor(() => openCalls.size === 0, { what: 'the call has ended' });
  });

  it.each(['gzip', 'identity'])('a streamed answer that fails has no end, sent as %s', async (encoding) => {
    const failing = Promise.withResolvers<string>();
    async function* lines() {
      yield '{"line":1}\n';
      yield await failing.promise;
    }
    const { url } = await serve(async () => ({ version: 1, stream: Readable.from(lines()) }));
    const response = await fetch(url, { headers: { 'accept-encoding': encoding } });
    expect(response.headers.get('content-encoding')).toBe(encoding === 'gzip' ? 'gzip' : null);
    const pieces = response.body?.getReader();
    expect((await pieces?.read())?.done).toBe(false);
    failing.reject(new Error('failed'));
    await expect(pieces?.read()).rejects.toThrow();
  });
});
