// The one file of `kubectl beat`, as it is built for this machine: kubectl finds it on PATH, and it needs no Node.
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findControlPlaneBinaries } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { hasCluster } from '../kube/cluster.ts';
import { runProgram } from '../support/run-program.ts';
import { type BeatFixture, openBeatFixture } from './kubectl-beat-fixture.ts';

const BUILD = fileURLToPath(new URL('../../tools/build-kubectl-beat.ts', import.meta.url));

describe.skipIf(!hasCluster)('the file kubectl-beat', () => {
  let fixture: BeatFixture;
  let folder: string;
  let kubectl: string;
  beforeAll(async () => {
    fixture = await openBeatFixture();
    folder = join(fixture.folder, 'bin');
    await mkdir(folder);
    kubectl = join((await findControlPlaneBinaries(() => undefined)) ?? '', 'kubectl');
    const built = await runProgram(process.execPath, [BUILD, '--out', folder]);
    expect(built, built.stderr).toMatchObject({ code: 0, stdout: `${join(folder, 'kubectl-beat')}\n` });
    await fixture.createReady('worker');
  });
  afterAll(async () => {
    await fixture?.close();
  });

  const beat = (...args: string[]) =>
    runProgram(kubectl, ['beat', ...args, '-n', fixture.namespace], {
      env: { PATH: folder, HOME: fixture.folder, KUBECONFIG: fixture.kubeconfig },
    });

  it('the build leaves one file', async () => {
    expect(await readdir(folder)).toEqual(['kubectl-beat']);
  });

  it('`kubectl beat status` prints the Monitors, and exits 1 once one is down', async () => {
    const waiting = await beat('status');
    expect(waiting).toMatchObject({ code: 0, stderr: '' });
    expect(waiting.stdout).toMatch(/^worker +waiting$/m);
    const sent = await beat('send', 'worker', '--fail');
    expect(sent, sent.stderr).toMatchObject({ code: 0, stderr: '' });
    await fixture.monitorBecomes('worker', 'Healthy', 'False');
    expect(await beat('status')).toMatchObject({ code: 1, stdout: expect.stringMatching(/^worker +down /m) });
  });

  it('`kubectl beat explain` asks the API, with the whole contract inside', async () => {
    const { code, stdout, stderr } = await beat('explain', 'worker');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Deadline .* UTC:$/m);
  });

  it('a refusal has exit code 2 through kubectl too', async () => {
    const { code, stderr } = await beat('explain', 'nothing');
    expect(code).toBe(2);
    expect(stderr).toContain('There is no Monitor nothing');
  });
});
