// A published generator (oazapfts) makes a client from the OpenAPI document. The compiler accepts every example as a call of
// it, and these calls succeed against an api.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateSource } from 'oazapfts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type ClientCall, expectedResults, prepareCalls } from '../support/client-calls.ts';
import { CLOSED_URL, OPERATIONS } from '../support/filled-project.ts';
import { runProgram } from '../support/run-program.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DOCUMENT = join(ROOT, 'docs/contract/openapi.json');

/** As strict as the callers of a client are. */
const COMPILER = {
  compilerOptions: {
    strict: true,
    target: 'es2024',
    lib: ['es2024', 'dom', 'dom.iterable'],
    module: 'nodenext',
    types: ['node'],
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    erasableSyntaxOnly: true,
    noEmit: true,
  },
  files: ['program.ts'],
};

let api: ApiFixture;
let folder: string;
beforeAll(async () => {
  api = await openApiFixture({ config: { relayUrl: CLOSED_URL, relayNotifiers: ['ntfy'] } });
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-client-'));
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
});
afterAll(async () => {
  await api?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** `Idempotency-Key` is the argument `idempotencyKey`, and a body has the name of its schema. */
function argumentOf(name: string): string {
  const [first = '', ...rest] = name.split('-');
  return [first[0]?.toLowerCase() + first.slice(1), ...rest].join('');
}

/** The call as a statement with its values written out, so that the compiler checks them too. */
function statementOf(
  { operationId, token, parameters, body }: ClientCall,
  bodyName: string | undefined,
): string {
  const stated = Object.entries(parameters).map(([name, value]) => [argumentOf(name), value]);
  if (bodyName !== undefined) stated.push([argumentOf(bodyName), body ?? {}]);
  const values = JSON.stringify(Object.fromEntries(stated));
  const success = OPERATIONS.find((spec) => spec.operationId === operationId)?.success;
  const options = JSON.stringify({ headers: { Authorization: `Bearer ${token}` } });
  return `{
    const answer = await client.${operationId}(${values}, ${options});
    if (answer.status !== ${success}) throw new Error('${operationId}: ' + JSON.stringify(answer));
    results.push({ operationId: '${operationId}', status: answer.status, hasBody: isFilled(answer) });
  }`;
}

/** The names of the schemas of bodies, by operation. */
function bodyNames(): Map<string, string> {
  const document = JSON.parse(readFileSync(DOCUMENT, 'utf8'));
  const names = new Map<string, string>();
  for (const item of Object.values(document.paths) as Record<string, DescribedOperation>[]) {
    for (const { operationId, requestBody } of Object.values(item)) {
      const { $ref } = requestBody?.content['application/json']?.schema ?? {};
      if ($ref) names.set(operationId, $ref.split('/').at(-1) ?? '');
    }
  }
  return names;
}

interface DescribedOperation {
  operationId: string;
  requestBody?: { content: Record<string, { schema: { $ref?: string } }> };
}

it('a client that oazapfts generates compiles with every example, and makes every call of the contract', async () => {
  const source = await generateSource(DOCUMENT, { argumentStyle: 'object' });
  const names = bodyNames();
  const calls = await prepareCalls(api);
  const program = `import * as client from './client.ts';
client.defaults.baseUrl = ${JSON.stringify(api.url)};
const results: { operationId: string; status: number; hasBody: boolean }[] = [];
const isFilled = (answer: object) => 'data' in answer && answer.data !== undefined && answer.data !== '';
${calls.map((call) => statementOf(call, names.get(call.operationId))).join('\n')}
console.log(JSON.stringify(results));
export {};
`;
  await writeFile(join(folder, 'client.ts'), source);
  await writeFile(join(folder, 'program.ts'), program);
  await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(COMPILER));
  const compiled = await runProgram(join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder], { cwd: folder });
  expect([compiled.code, compiled.stdout]).toEqual([0, '']);
  const ran = await runProgram(process.execPath, [join(folder, 'program.ts')], { cwd: folder });
  expect([ran.code, ran.code === 0 ? '' : ran.stderr]).toEqual([0, '']);
  expect(JSON.parse(ran.stdout)).toEqual(expectedResults());
}, 600_000);
