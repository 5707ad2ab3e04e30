// Service accounts of the test run's cluster, their tokens, and the cluster as an issuer that an api trusts.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TrustedIssuer } from '../../src/api/auth/session-token.ts';
import type { Role } from '../../src/domain/access.ts';
import type { KubeResource } from '../../src/kube/kube-object.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { adminKubeconfig, type TestClient } from './cluster.ts';

export const serviceAccounts: KubeResource = {
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
  namespaced: true,
};

interface AccountName {
  namespace: string;
  name: string;
}

/** Default audience: the API server itself. */
export async function tokenOf(
  { transport }: TestClient,
  { namespace, name }: AccountName,
  audience?: string,
): Promise<string> {
  const answer = await transport.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 3_600, ...(audience ? { audiences: [audience] } : {}) },
    },
  });
  return (answer as { status: { token: string } }).status.token;
}

/** Makes the account, and writes its token to a file of the folder as the kubelet does. Resolves to the file. */
export async function mountAccount(
  test: TestClient,
  account: AccountName,
  { folder, audience }: { folder: string; audience?: string },
): Promise<string> {
  await test.client.create(serviceAccounts, { metadata: account });
  const file = join(folder, `${account.name}-token`);
  await writeFile(file, await tokenOf(test, account, audience));
  return file;
}

/** The settings that the chart gives an api: `tokenFile` is its own token, which names the issuer. */
export async function trustCluster(
  roles: Record<string, Role>,
  { folder, tokenFile, url }: { folder: string; tokenFile: string; url?: string },
): Promise<TrustedIssuer> {
  const cluster = loadKubeConfig(adminKubeconfig).getCurrentCluster();
  const caFile = cluster?.caFile ?? join(folder, 'ca.crt');
  if (cluster?.caData) await writeFile(caFile, Buffer.from(cluster.caData, 'base64'));
  return {
    audience: 'beatkeeper',
    jwksUri: `${url ?? cluster?.server}/openid/v1/jwks`,
    caFile,
    tokenFile,
    maxTokenAge: 86_400,
    organization: 'acme',
    roles,
  };
}
