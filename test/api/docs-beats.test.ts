// The page /docs/beats: each of its recipes is run as it stands, and each of its bodies is sent.
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { JSON_EXAMPLES } from '../../src/api/docs/guides/beats-page.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { commandsOf, textOf } from '../support/page-text.ts';
import { runProgram } from '../support/run-program.ts';

/** Fails, after an output that is longer than a message. */
const JOB = `#!/bin/sh
seq 1 500
echo "no space left" >&2
exit 3
`;

let api: ApiFixture;
let folder: string;
let recipes: string[];
beforeAll(async () => {
  api = await openApiFixture();
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-beats-'));
  await writeFile(join(folder, 'backup.sh'), JOB);
  await chmod(join(folder, 'backup.sh'), 0o755);
  recipes = commandsOf(await (await fetch(`${api.url}/docs/beats`)).text());
});
afterAll(async () => {
  await api?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

async function makeMonitor() {
  const body = { name: 'backup', intervalSeconds: 3600 };
  const { monitorId, publishUrl = '' } = (await api.manage.expectSuccess('createMonitor', { body })).body;
  const observations = async () => {
    const list = await api.manage.expectSuccess('listObservations', { params: { monitorId } });
    return list.body.items.toReversed();
  };
  return { address: `${api.url}${new URL(publishUrl).pathname}`, observations };
}

/** Runs the only recipe with these words, as it stands, and answers what it recorded. */
async function recordedBy(words: string) {
  const found = recipes.filter((recipe) => recipe.includes(words));
  expect(found).toHaveLength(1);
  const { address, observations } = await makeMonitor();
  const env = { PATH: process.env.PATH, PUBLISH_URL: address };
  const ran = await runProgram('sh', ['-c', found[0] ?? ''], { cwd: folder, env });
  expect([ran.code, ran.stderr.includes('curl:')]).toEqual([0, false]);
  return await observations();
}

it('the recipe for an exit status reports a failure with it', async () => {
  expect(await recordedBy('./backup.sh; curl -fsS -m 15 --retry 3 "$PUBLISH_URL/$?"')).toMatchObject([
    { kind: 'fail', exitStatus: 3 },
  ]);
});

it('the recipe for exit status and output keeps the end of the output', async () => {
  const [beat, ...others] = await recordedBy('status=$?');
  expect(others).toEqual([]);
  expect(beat).toMatchObject({ kind: 'fail', exitStatus: 3 });
  expect(beat?.message).toHaveLength(1_024);
  expect(beat?.message).toMatch(/500\nno space left\n$/);
});

it('the recipe for the output alone makes a success', async () => {
  const [beat] = await recordedBy('./backup.sh 2>&1 |');
  expect(beat).toMatchObject({ kind: 'success', message: expect.stringMatching(/no space left\n$/) });
});

it('the recipe for the duration of a run ties its end to its start', async () => {
  const beats = await recordedBy('?rid=$run');
  expect(beats).toMatchObject([{ kind: 'start' }, { kind: 'fail', durationSeconds: expect.any(Number) }]);
  expect(beats[1]?.runId).toBe(beats[0]?.runId);
});

it('the recipes for a key and for JSON make successes', async () => {
  expect(await recordedBy('Idempotency-Key: $key')).toMatchObject([{ kind: 'success' }]);
  expect(await recordedBy('"measurements"')).toMatchObject([
    { kind: 'success', measurements: { rows: 1042 } },
  ]);
});

it('every recipe of the page was run', () => {
  expect(recipes).toHaveLength(6);
});

it.each(JSON_EXAMPLES)('$body makes what the page says', async ({ body, makes, isText }) => {
  const page = await (await fetch(`${api.url}/docs/beats`)).text();
  expect(textOf(page)).toContain(`<code>${body}</code>`);
  const { address, observations } = await makeMonitor();
  const headers = { 'content-type': 'application/json' };
  const { status } = await fetch(address, { method: 'POST', headers, body });
  expect(status).toBe(makes === 'refused' ? 400 : 200);
  const recorded = (await observations()).map(({ kind, message }) => ({ kind, isText: message === body }));
  expect(recorded).toEqual(makes === 'refused' ? [] : [{ kind: makes, isText }]);
});

it('a long text is cut, and a long message in JSON is refused', async () => {
  const { address, observations } = await makeMonitor();
  const long = 'x'.repeat(2_000);
  const headers = { 'content-type': 'application/json' };
  const json = await fetch(address, { method: 'POST', headers, body: JSON.stringify({ message: long }) });
  expect([json.status, (await fetch(address, { method: 'POST', body: long })).status]).toEqual([400, 200]);
  expect(await observations()).toMatchObject([{ message: 'x'.repeat(1_024) }]);
});
