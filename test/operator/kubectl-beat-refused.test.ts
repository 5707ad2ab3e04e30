// `kubectl beat` where the API does not help: one sentence that says what to do, and exit code 2.
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeKubeconfigWithApi } from '../../src/dev/control-plane/kubeconfig-api.ts';
import { hasCluster } from '../kube/cluster.ts';
import { listen } from '../support/listen.ts';
import { type BeatFixture, openBeatFixture } from './kubectl-beat-fixture.ts';

describe.skipIf(!hasCluster)('kubectl beat where the API cannot help', () => {
  let fixture: BeatFixture;
  beforeAll(async () => {
    fixture = await openBeatFixture();
    await fixture.createDown('worker');
  });
  afterAll(async () => {
    await fixture?.close();
  });

  const withUrl = async (name: string, url: string) => {
    const file = join(fixture.folder, name);
    await writeKubeconfigWithApi(fixture.kubeconfig, file, {
      url,
      release: `${fixture.namespace}/beatkeeper`,
    });
    return file;
  };

  it('an API that is away is named with its address', async () => {
    const { port, close } = await listen(createServer());
    await close();
    const kubeconfig = await withUrl('away', `http://127.0.0.1:${port}`);
    const { code, stdout, stderr } = await fixture.beatctlAs(kubeconfig, 'ack', 'worker');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(
      `kubectl beat: The API does not answer at http://127.0.0.1:${port}: check that it runs`,
    );
  });

  it('an API that does not trust the cluster refuses the token, and the refusal names the account', async () => {
    const kubeconfig = await withUrl('distrustful', fixture.apiFixture.url);
    const { code, stderr } = await fixture.beatctlAs(kubeconfig, 'ack', 'worker');
    expect(code).toBe(2);
    expect(stderr).toContain('The API does not accept tokens of the service account beatkeeper-member');
  });

  it('a viewer may not acknowledge, and an incident that is not there is named', async () => {
    const viewer = await fixture.beatctl('ack', 'worker', '--role', 'viewer');
    expect(viewer.code).toBe(2);
    expect(viewer.stderr).toContain('The API refuses it: ');
    const unknown = await fixture.beatctl('ack', 'inc_unknown');
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('There is no incident inc_unknown in this project');
  });

  it('a beat that the service refuses is told in its words', async () => {
    const { code, stderr } = await fixture.beatctl('send', 'worker', '--run-id', 'not an id');
    expect(code).toBe(2);
    expect(stderr).toContain('The beat was not accepted: ');
    expect(stderr.match(/runId/g)).toHaveLength(1);
  });
});
