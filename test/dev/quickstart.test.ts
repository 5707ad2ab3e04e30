// The quickstart of /docs as somebody follows it who knows nothing else: its commands, as the page shows them, one after
// the other in one shell, against `npm run dev`. Only the port and the two times of the example are others.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { textOf } from '../support/page-text.ts';
import { type Outcome, runProgram } from '../support/run-program.ts';
import { DevelopmentRun, makeStateFolder, type ReadyFields } from './development-run.ts';

/** The blocks that the page says to run. With `python` the block in its `details` replaces the one before it. */
function blocksOf(page: string, receiver: 'node' | 'python'): string[] {
  const blocks: string[] = [];
  const pattern = /<details>.*?<code>(.*?)<\/code>.*?<\/details>|<pre class="run"[^>]*><code>(.*?)<\/code>/gs;
  for (const [, instead, block] of page.matchAll(pattern)) {
    if (block !== undefined) blocks.push(textOf(block));
    else if (receiver === 'python') blocks.splice(-1, 1, textOf(instead ?? ''));
  }
  return blocks;
}

describe('the quickstart', () => {
  let state: Awaited<ReturnType<typeof makeStateFolder>>;
  let run: DevelopmentRun;
  let ready: ReadyFields;
  beforeAll(async () => {
    state = await makeStateFolder();
    const env = { BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '2' };
    run = new DevelopmentRun(state.folder, { args: ['--no-cluster'], env });
    ready = await run.ready();
  });
  afterAll(async () => {
    await run.stop();
    await state.remove();
  });

  async function follow(receiver: 'node' | 'python'): Promise<Outcome> {
    const page = await (await fetch(`${ready.api}/docs/quickstart`)).text();
    expect(page).toContain(`export BASE=${ready.api}`);
    const blocks = blocksOf(page, receiver);
    expect(blocks.length).toBeGreaterThan(8);
    const port = String(await findFreePort());
    const script = blocks
      .join('\n')
      .replaceAll('9123', port)
      .replace('"intervalSeconds":60,"graceSeconds":60', '"intervalSeconds":2,"graceSeconds":2');
    const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-quickstart-'));
    try {
      const env = { PATH: process.env.PATH, BASE: ready.api, OWNER_TOKEN: ready.ownerToken };
      // An alert that does not come would be waited for without an end.
      const shell = ['300', 'bash', '--norc', '-uo', 'pipefail', '-c', script];
      return await runProgram('timeout', shell, { cwd: folder, env });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  test.each(['node', 'python'] as const)(
    'the commands of the page lead from the first credential to a verified alert, with a receiver in %s',
    async (receiver) => {
      const { code, stdout, stderr } = await follow(receiver);
      expect(stderr).toBe('');
      expect(code).toBe(0);
      for (const words of [
        /TOKEN is bkc_/,
        /SECRET is sigcb_v1_.+ of endpoint cb_/,
        /"delivered":true/,
        /^verified: callback.test$/m,
        /PUBLISH_URL is http.+\/ping\//,
        /^OK"health":"up"$/m,
        /^verified: incident.opened .+/m,
        /"event":"incident.opened","state":"delivered"/,
        /verified: incident.recovered .+/,
        /^204 deleted http.+\/v1\/monitors\/nightly-backup$/m,
        /^204 deleted http.+\/v1\/callbacks\/cb_/m,
        /^204 deleted http.+\/v1\/credentials\//m,
      ]) {
        expect(stdout).toMatch(words);
      }
    },
  );
});
