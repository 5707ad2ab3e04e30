// `kubectl beat dashboard`: an address that signs in, printed or given to a browser, and never on a command line.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { compileCache } from '../support/compile-cache.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatFixture, KUBECTL_BEAT, openBeatFixture } from './kubectl-beat-fixture.ts';

describe.skipIf(!hasCluster)('kubectl beat dashboard', () => {
  let fixture: BeatFixture;
  beforeAll(async () => {
    fixture = await openBeatFixture();
  });
  afterAll(async () => {
    await fixture?.close();
  });

  async function start(path: string, ...more: string[]): Promise<{ child: ChildProcess; line: string }> {
    const { namespace, kubeconfig, folder } = fixture;
    const args = [KUBECTL_BEAT, 'dashboard', '-n', namespace, '--kubeconfig', kubeconfig, ...more];
    const child = spawn(process.execPath, args, { env: { PATH: path, HOME: folder, ...compileCache } });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    return { child, line };
  }
  async function interrupt(child: ChildProcess): Promise<void> {
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
  }
  const statusWith = async (token: string) => {
    const headers = { authorization: `Bearer ${token}`, 'service-project': fixture.namespace };
    return (await fetch(`${fixture.trustingUrl}/v1/incidents`, { headers })).status;
  };
  /** A folder for PATH with a program of this name for `sh`. */
  async function programs(name: string, script: string): Promise<string> {
    const folder = join(fixture.folder, name);
    await mkdir(folder);
    for (const program of ['xdg-open', 'open']) {
      await writeFile(join(folder, program), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
    return `${folder}:${process.env.PATH}`;
  }

  it('prints an address with a token that the API takes, and ends with Ctrl-C', async () => {
    await fixture.createReady('worker');
    const { child, line } = await start(process.env.PATH ?? '');
    const [address, token = ''] = line.split('/sign-in#token=');
    expect(address).toBe(fixture.trustingUrl);
    expect(await statusWith(token)).toBe(200);
    await interrupt(child);
  });

  it('--open gives the browser a file that only its owner reads, which signs in and goes with the command', async () => {
    const opened = join(fixture.folder, 'opened');
    const path = await programs('browser', `printf '%s\\n' "$@" > ${opened}`);
    const { child, line } = await start(path, '--open');
    expect(line).toBe(`${fixture.trustingUrl}/`);
    const file = (await readFile(opened, 'utf8')).trim();
    expect(dirname(dirname(file))).toBe(fixture.folder);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(dirname(file))).mode & 0o777).toBe(0o700);
    const page = await readFile(file, 'utf8');
    const [, token = ''] = /url=[^"]*\/sign-in#token=([^"]+)"/.exec(page) ?? [];
    expect(page).toContain(`url=${fixture.trustingUrl}/sign-in#token=${token}"`);
    expect(await statusWith(token)).toBe(200);
    await interrupt(child);
    expect(existsSync(dirname(file))).toBe(false);
  });

  it('--open without a browser prints the address that signs in, and leaves no file', async () => {
    const seen = join(fixture.folder, 'seen');
    const path = await programs('no-browser', `echo "$1" > ${seen}; exit 3`);
    const { child, line } = await start(path, '--open');
    expect(line).toContain(`${fixture.trustingUrl}/sign-in#token=`);
    await interrupt(child);
    expect(existsSync((await readFile(seen, 'utf8')).trim())).toBe(false);
  });

  it('Ctrl-C ends it while the browser goes on in the foreground', async () => {
    const running = join(fixture.folder, 'running');
    const path = await programs('foreground', `echo $$ > ${running}; exec sleep 600`);
    const { namespace, kubeconfig, folder } = fixture;
    const args = [KUBECTL_BEAT, 'dashboard', '-n', namespace, '--kubeconfig', kubeconfig, '--open'];
    const child = spawn(process.execPath, args, { env: { PATH: path, HOME: folder, ...compileCache } });
    onTestFinished(() => void child.kill('SIGKILL'));
    const pid = await waitFor(async () => existsSync(running) && (await readFile(running, 'utf8')).trim(), {
      what: 'the browser runs',
    });
    onTestFinished(() => void process.kill(Number(pid)));
    await interrupt(child);
  });
});
