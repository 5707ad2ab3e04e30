// A published generator (openapi-python-client) makes a client from the OpenAPI document, and this client makes every call
// of the contract against an api.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectedResults, prepareCalls } from '../support/client-calls.ts';
import { CLOSED_URL } from '../support/filled-project.ts';
import { openPythonFixture } from '../support/python-fixture.ts';
import { runProgram } from '../support/run-program.ts';

const DOCUMENT = fileURLToPath(new URL('../../docs/contract/openapi.json', import.meta.url));
const DRIVER = fileURLToPath(new URL('./drive_client.py', import.meta.url));
const PACKAGE = 'beatkeeper_client';

let python: Awaited<ReturnType<typeof openPythonFixture>>;
beforeAll(async () => {
  python = await openPythonFixture({ config: { relayUrl: CLOSED_URL, relayNotifiers: ['ntfy'] } });
});
afterAll(async () => {
  if (python && 'api' in python) await python.close();
});

it('a client that openapi-python-client generates makes every call of the contract', async (context) => {
  if ('missing' in python) return context.skip(python.missing);
  const { bin, api, folder } = python;
  const document = join(folder, 'openapi.json');
  await cp(DOCUMENT, document);
  const made = await runProgram(
    join(bin, 'openapi-python-client'),
    ['generate', '--path', document, '--meta', 'none', '--output-path', join(folder, PACKAGE)],
    // It formats what it makes with a program of its environment.
    { cwd: folder, env: { ...process.env, PATH: `${bin}:${process.env.PATH}` } },
  );
  expect([made.code, made.code === 0 ? '' : made.stdout + made.stderr]).toEqual([0, '']);
  // Its generator knows no texts as bodies, which beats may be.
  const warned = [...made.stdout.matchAll(/WARNING parsing (\S+ \S+)/g)].map(([, what = '']) => what);
  expect(warned.filter((what) => !what.includes('/ping/'))).toEqual([]);
  const input = JSON.stringify({ folder, package: PACKAGE, base: api.url, calls: await prepareCalls(api) });
  const driven = await runProgram(join(bin, 'python'), [DRIVER], { input });
  expect([driven.code, driven.stderr]).toEqual([0, '']);
  expect(JSON.parse(driven.stdout)).toEqual(expectedResults());
});
