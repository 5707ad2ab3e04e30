// What of the client library runs in the operator (docs/adr/0010-what-of-the-client-library-runs.md).
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { stringify } from 'yaml';
import { json, startFakeKubeServer } from '../../support/fake-kube-server.ts';
import { runProgram } from '../../support/run-program.ts';
import type { PackageUse } from './called-packages.ts';

const PROGRAM = fileURLToPath(new URL('called-packages.ts', import.meta.url));

const encoded = (text: string) => Buffer.from(text).toString('base64');

const kubeconfig = (server: string, user: object) =>
  stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'a', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'a', user }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    'current-context': 'a',
  });

it('of the client library only the reader of kubeconfigs runs: no code for OpenID Connect or JSONPath is called', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'client-library-'));
  const server = await startFakeKubeServer([], json(200, {}));
  try {
    const tokenFile = join(folder, 'service-account-token');
    await writeFile(tokenFile, 'of-a-pod');
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'of-a-plug-in' },
    };
    const exec = { command: 'echo', args: [JSON.stringify(credential)] };
    const users = {
      // As the library describes the service account of a pod.
      pod: { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } },
      token: { token: 'of-a-file' },
      certificate: { 'client-certificate-data': encoded('certificate'), 'client-key-data': encoded('key') },
      'plug-in': { exec: { apiVersion: credential.apiVersion, interactiveMode: 'Never', ...exec } },
    };
    const files = await Promise.all(
      Object.entries(users).map(async ([name, user]) => {
        const file = join(folder, name);
        await writeFile(file, kubeconfig(server.config().getCurrentCluster()?.server ?? '', user));
        return file;
      }),
    );
    const { code, stdout, stderr } = await runProgram(process.execPath, [PROGRAM, ...files], {
      // What was compiled before is not told as called.
      env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' },
    });
    expect([code, stderr]).toEqual([0, '']);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer of-a-pod',
      'Bearer of-a-file',
      undefined,
      'Bearer of-a-plug-in',
    ]);
    const { loaded, called } = JSON.parse(stdout) as PackageUse;
    expect(loaded).toEqual(expect.arrayContaining(['openid-client', 'oauth4webapi', 'jsonpath-plus']));
    expect(called).toEqual([
      '@kubernetes/client-node/dist/azure_auth.js', // asked whether the user is one of Azure
      '@kubernetes/client-node/dist/config.js',
      '@kubernetes/client-node/dist/config_types.js',
      '@kubernetes/client-node/dist/exec_auth.js',
      '@kubernetes/client-node/dist/file_auth.js',
      '@kubernetes/client-node/dist/gcp_auth.js', // asked likewise
      '@kubernetes/client-node/dist/oidc_auth.js', // asked likewise
      'js-yaml/dist/js-yaml.mjs',
    ]);
  } finally {
    await server.close();
    await rm(folder, { recursive: true });
  }
});
