// Schemathesis reads the OpenAPI document and calls the api with what fits it and what does not, along its links too: no
// call fails with a 500, and every answer is one that the document has.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type FilledProject, fillProject } from '../support/filled-project.ts';
import { findPythonTools, type PythonTools } from '../support/python-tools.ts';
import { runProgram } from '../support/run-program.ts';

/** What each answer must be. Which valid calls succeed and which are refused is the business of other tests. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
];
/** For each principal: three of them stay below the four minutes of the stage in .ci/run. */
const MOST_SECONDS = Number(process.env.BEATKEEPER_TEST_SCHEMATHESIS_SECONDS ?? 60);

let tools: PythonTools;
let api: ApiFixture;
let folder: string;
beforeAll(async () => {
  tools = await findPythonTools();
  if (tools.missing) return;
  api = await openApiFixture();
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-schemathesis-'));
});
afterAll(async () => {
  await api?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** Real ids for the reader, who leaves everything in its place. Nobody waits: a call takes up to 30 s then. */
function configuration({ ids }: FilledProject, isReader: boolean): string {
  const named = Object.entries(ids).map(([name, id]) => `"path.${name}" = "${id}"`);
  return ['[parameters]', '"query.waitSeconds" = 0', ...(isReader ? named : []), ''].join('\n');
}

describe('every operation of the document', () => {
  it.for(['read', 'manage', 'owner'] as const)(
    'every answer to the principal %s is one that the document has',
    async (principal, context) => {
      if (tools.bin === undefined) return context.skip(tools.missing);
      const config = join(folder, `${principal}.toml`);
      await writeFile(config, configuration(await fillProject(api), principal === 'read'));
      const headers = [`Authorization: Bearer ${api.tokens[principal]}`];
      // A credential has its own project.
      if (principal === 'owner') headers.push(`Service-Project: ${api.projectName}`);
      const { code, stdout, stderr } = await runProgram(
        join(tools.bin, 'st'),
        [
          ...['--config-file', config, 'run', `${api.url}/docs/openapi.json`, '--url', api.url],
          ...headers.flatMap((header) => ['--header', header]),
          ...['--checks', CHECKS.join(','), '--max-time', String(MOST_SECONDS), '--seed', '1'],
          ...['--request-timeout', '60', '--suppress-health-check', 'all', '--warnings', 'off', '--no-color'],
          '--continue-on-failure',
        ],
        { cwd: folder },
      );
      expect([code, code === 0 ? '' : `${stdout}\n${stderr}`]).toEqual([0, '']);
      // It has called, along links too.
      expect(stdout).toMatch(/Stateful/);
    },
  );
});
