// The role `operator` in a process of its own, through a gate to the API server and a proxy to the API.
import { type RoleProcess, startRole } from '../support/role-process.ts';
import { ClusterGate } from './cluster-gate.ts';
import type { OperatorFixture } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

export interface OperatorProcess extends RoleProcess {
  gate: ClusterGate;
  api: RefusingProxy;
  lines: Record<string, unknown>[];
  /** Lines with this message. */
  said(message: string): Record<string, unknown>[];
  isLeading(): Promise<boolean>;
}

/** Resolves when it is ready, as a standby too. `env` comes before its usual settings. */
export async function startOperatorProcess(
  fixture: OperatorFixture,
  env: Record<string, string> = {},
  nodeArgs: string[] = [],
): Promise<OperatorProcess> {
  const gate = await ClusterGate.start();
  const api = await RefusingProxy.start(fixture.apiFixture.url);
  const folder = fixture.tokenFile.replace(/\/[^/]+$/, '');
  const lines: Record<string, unknown>[] = [];
  const usual = {
    KUBECONFIG: await gate.writeKubeconfig(folder),
    BEATKEEPER_API_URL: api.url,
    BEATKEEPER_TOKEN_FILE: fixture.tokenFile,
    BEATKEEPER_WATCH_NAMESPACES: fixture.namespace,
    BEATKEEPER_WORKLOADS: 'false',
    BEATKEEPER_LOG_LEVEL: 'info',
    POD_NAMESPACE: fixture.namespace,
  };
  const onLine = (line: string) => void lines.push(JSON.parse(line));
  const role = await startRole('operator', { ...usual, ...env }, onLine, undefined, nodeArgs);
  return {
    ...{ ...role, gate, api, lines },
    said: (message) => lines.filter(({ msg }) => msg === message),
    async isLeading() {
      const metrics = await (await fetch(`${role.healthUrl}/metrics`)).text();
      return /^leader_election_master_status\{[^}]*\} 1$/m.test(metrics);
    },
    async close() {
      await role.close();
      await Promise.all([gate.close(), api.close()]);
    },
  };
}
