// Session tokens of a cluster's service accounts, reviewed by a real API server (docs/contract/tenancy.md).
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SessionAuthenticator, type TrustedIssuer } from '../../src/api/auth/session-token.ts';
import type { ProblemCode, ProblemError } from '../../src/domain/problem.ts';
import type { KubeResource } from '../../src/kube/kube-object.ts';
import { directoryIn } from '../../src/service/calls/directory.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { connect, createNamespace, hasCluster, startClusterProxy, type TestClient } from './cluster.ts';
import { mountAccount, serviceAccounts, tokenOf, trustCluster } from './service-accounts.ts';

const reviewerBindings: KubeResource = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  plural: 'clusterrolebindings',
  namespaced: false,
};

describe.skipIf(!hasCluster)('a token of a service account', () => {
  let test: TestClient;
  let database: DatabaseFixture;
  let proxy: TcpProxy;
  let namespace: string;
  let folder: string;
  let trusted: TrustedIssuer;
  let sessions: SessionAuthenticator;
  let nowMs = 0;

  beforeAll(async () => {
    test = connect();
    database = await openDatabaseFixture();
    await database.pool.query(
      "insert into organizations (organization_id, name, plan) values (gen_random_uuid(), 'acme', 'scale')",
    );
    namespace = await createNamespace(test.client);
    folder = await mkdtemp(join(tmpdir(), 'token-review-'));
    ({ proxy } = await startClusterProxy());
    trusted = await trust();
    sessions = new SessionAuthenticator(directoryIn(database.pool), [trusted], () => nowMs);
  });
  afterAll(async () => {
    await sessions?.stop();
    await proxy?.close();
    await test?.client.delete(reviewerBindings, { name: namespace });
    await test?.close();
    await database?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** The settings that an installation in the cluster has: an account that may create reviews, and the cluster's authority. */
  /** The settings that an installation in the cluster has: an account that may create reviews, and the cluster's authority. */
  async function trust(): Promise<TrustedIssuer> {
    const tokenFile = await mountAccount(test, { name: 'api', namespace }, { folder });
    await test.client.create(reviewerBindings, {
      metadata: { name: namespace },
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: 'system:auth-delegator',
      },
      subjects: [{ kind: 'ServiceAccount', name: 'api', namespace }],
    } as object as Parameters<typeof test.client.create>[1]);
    const names = ['deleted', 'kept'].map((name) => `system:serviceaccount:${namespace}:${name}`);
    const roles = Object.fromEntries(names.map((name) => [name, 'member'] as const));
    return {
      ...(await trustCluster(roles, { folder, tokenFile, url: proxy.url })),
      tokenReviewUri: `${proxy.url}/apis/authentication.k8s.io/v1/tokenreviews`,
    };
  }

  async function makeToken(name: string): Promise<string> {
    await test.client.create(serviceAccounts, { metadata: { name, namespace } });
    return await tokenOf(test, { name, namespace }, 'beatkeeper');
  }

  const outcome = (token: string, by = sessions): Promise<ProblemCode | 'ok'> =>
    by.authenticate(token).then(
      () => 'ok',
      (error: ProblemError) => error.code,
    );

  it('its token ends after its deletion when 60 s are over, and without a review not before it expires', async () => {
    const token = await makeToken('deleted');
    expect(await outcome(token)).toBe('ok');
    await test.client.delete(serviceAccounts, { name: 'deleted', namespace });
    nowMs += 59_000;
    expect(await outcome(token)).toBe('ok');
    nowMs += 1_000;
    // The API server, too, remembers a token for some seconds.
    await waitFor(
      async () => {
        nowMs += 60_000;
        return (await outcome(token)) === 'authentication_required';
      },
      { what: 'the token is refused' },
    );
    const { tokenReviewUri: _, ...unreviewed } = trusted;
    const bySignature = new SessionAuthenticator(directoryIn(database.pool), [unreviewed]);
    expect(await outcome(token, bySignature)).toBe('ok');
    await bySignature.stop();
  });

  it('its token is unavailable while the API server cannot be reached, and good again afterwards', async () => {
    const token = await makeToken('kept');
    expect(await outcome(token)).toBe('ok');
    await proxy.refuse();
    nowMs += 60_000;
    expect(await outcome(token)).toBe('temporarily_unavailable');
    await proxy.accept();
    await waitFor(async () => (await outcome(token)) === 'ok', { what: 'the API server is asked again' });
  });
});
