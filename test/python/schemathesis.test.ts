// Schemathesis reads the OpenAPI document and calls the api with what fits it and what does not, along its links too: no
// call fails with a 500, and every answer is one that the document has.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FilledProject, fillProject } from '../support/filled-project.ts';
import { openPythonFixture } from '../support/python-fixture.ts';
import { runProgram } from '../support/run-program.ts';

/** What each answer must be. Which valid calls succeed and which are refused is the business of other tests. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
];
/** For each of six runs. */
const MOST_SECONDS = Number(process.env.BEATKEEPER_TEST_SCHEMATHESIS_SECONDS ?? 30);
/** Each call by itself, and calls along the links of the document. */
const PHASES = ['examples,coverage,fuzzing', 'stateful'] as const;
const PRINCIPALS = ['read', 'manage', 'owner'] as const;
const RUNS = PRINCIPALS.flatMap((principal) => PHASES.map((phases) => [principal, phases] as const));

let python: Awaited<ReturnType<typeof openPythonFixture>>;
beforeAll(async () => {
  python = await openPythonFixture();
});
afterAll(async () => {
  if (python && 'api' in python) await python.close();
});

/** `ids`: those of all paths. Nobody waits: a call takes up to 30 s then. */
function configuration(ids: Partial<FilledProject['ids']>): string {
  const named = Object.entries(ids).map(([name, id]) => `"path.${name}" = "${id}"`);
  return `[parameters]
"query.waitSeconds" = 0
${named.join('\n')}
[phases.stateful.inference]
algorithms = []
`;
}

describe('every operation of the document', () => {
  it.for(RUNS)(
    'every answer to the principal %s is one that the document has, in the phases %s',
    async ([principal, phases], context) => {
      if ('missing' in python) return context.skip(python.missing);
      const { bin, api, folder } = python;
      const config = join(folder, `${principal}.toml`);
      const { ids } = await fillProject(api);
      const followsLinks = phases === 'stateful';
      // Real ids for the reader, who leaves everything in its place; links lead to them by themselves.
      await writeFile(config, configuration(principal === 'read' && !followsLinks ? ids : {}));
      const headers = [`Authorization: Bearer ${api.tokens[principal]}`];
      // A credential has its own project.
      if (principal === 'owner') headers.push(`Service-Project: ${api.projectId}`);
      const worked = followsLinks ? /API Links: +[1-9]\d* covered/ : /[1-9]\d* generated/;
      const program = join(bin, 'st');
      const run = async (seconds: number) => {
        const { code, stdout, stderr } = await runProgram(
          program,
          [
            ...['--config-file', config, 'run', `${api.url}/docs/openapi.json`, '--url', api.url],
            ...headers.flatMap((header) => ['--header', header]),
            ...['--checks', CHECKS.join(','), '--phases', phases, '--max-time', String(seconds)],
            ...['--request-timeout', '60', '--suppress-health-check', 'all', '--warnings', 'off'],
            ...['--continue-on-failure', '--no-color'],
          ],
          { cwd: folder },
        );
        // A seed stands in its output: the same calls can be made again.
        expect([code, code === 0 ? '' : `${stdout}\n${stderr}`]).toEqual([0, '']);
        return stdout;
      };
      if (worked.test(await run(MOST_SECONDS))) return;
      // A slow machine has only begun.
      expect(await run(4 * MOST_SECONDS)).toMatch(worked);
    },
  );
});
