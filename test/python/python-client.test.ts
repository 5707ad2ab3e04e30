// A published generator (openapi-python-client) makes a client from the OpenAPI document, and this client makes every call
// of the contract against an api.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { expectedResults, prepareCalls } from '../support/client-calls.ts';
import { CLOSED_URL } from '../support/filled-project.ts';
import { findPythonTools, type PythonTools } from '../support/python-tools.ts';
import { runProgram } from '../support/run-program.ts';

const DOCUMENT = fileURLToPath(new URL('../../docs/contract/openapi.json', import.meta.url));
const DRIVER = fileURLToPath(new URL('./drive_client.py', import.meta.url));
const PACKAGE = 'beatkeeper_client';

let tools: PythonTools;
let api: ApiFixture;
let folder: string;
beforeAll(async () => {
  tools = await findPythonTools();
  if (tools.missing) return;
  api = await openApiFixture({ config: { relayUrl: CLOSED_URL, relayNotifiers: ['ntfy'] } });
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-python-'));
});
afterAll(async () => {
  await api?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

it('a client that openapi-python-client generates makes every call of the contract', async (context) => {
  if (tools.bin === undefined) return context.skip(tools.missing);
  const document = join(folder, 'openapi.json');
  await cp(DOCUMENT, document);
  const made = await runProgram(
    join(tools.bin, 'openapi-python-client'),
    ['generate', '--path', document, '--meta', 'none', '--output-path', join(folder, PACKAGE)],
    // It formats what it makes with a program of its environment.
    { cwd: folder, env: { ...process.env, PATH: `${tools.bin}:${process.env.PATH}` } },
  );
  expect([made.code, made.code === 0 ? '' : made.stdout + made.stderr]).toEqual([0, '']);
  // Its generator knows no texts as bodies, which beats may be.
  const warned = [...made.stdout.matchAll(/WARNING parsing (\S+ \S+)/g)].map(([, what = '']) => what);
  expect(warned.filter((what) => !what.includes('/ping/'))).toEqual([]);
  const input = JSON.stringify({ folder, package: PACKAGE, base: api.url, calls: await prepareCalls(api) });
  const driven = await runProgram(join(tools.bin, 'python'), [DRIVER], { input });
  expect([driven.code, driven.stderr]).toEqual([0, '']);
  expect(JSON.parse(driven.stdout)).toEqual(expectedResults());
});
