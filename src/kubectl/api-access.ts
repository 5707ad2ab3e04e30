// The way to /v1: a token of a service account that stands for a role, and an address. The RBAC of the cluster decides who
// gets either. The service proxy of the API server is no way: it keeps the header Authorization for itself, so that the
// API would never see the token. A forwarded port carries it.
import type { RestClient } from '../client/rest-client.ts';
import { KubeError } from '../kube/kube-error.ts';
import type { Cluster } from './cluster.ts';
import type { Option } from './option.ts';
import { type Forward, type ForwardOptions, forwardService } from './port-forward.ts';
import { attempt, Refusal } from './refusal.ts';
import { apiServiceOf, type Release } from './release.ts';

export const ROLES = ['viewer', 'member', 'owner'] as const;
export type Role = (typeof ROLES)[number];

export const ROLE_OPTION: Option = {
  name: 'role',
  value: 'role',
  text: 'viewer, member or owner: whose token to sign in with; default: the least that suffices and that you may have',
};

/** The audience of the tokens that the API takes (docs/contract/kubernetes.md, "Sign-in"). */
const AUDIENCE = 'beatkeeper';
/** The shortest that the cluster gives. */
const TOKEN_SECONDS = 600;

export interface ApiAccess {
  client: RestClient;
  /** Says why the way there failed, in place of what the client saw of it. */
  explain(error: unknown, notFound?: string): unknown;
  close(): Promise<void>;
}

/** Throws a Refusal if the caller may not have a token of any of the roles, or if there is no way to the API. */
export async function openApi(
  cluster: Cluster,
  release: Release,
  roles: readonly Role[],
): Promise<ApiAccess> {
  const token = await createToken(cluster, release, roles);
  const address = await openAddress(cluster, release);
  // Only these commands load the whole contract.
  const { RestClient } = await import('../client/rest-client.ts');
  const { ApiProblem } = await import('../client/api-problem.ts');
  const client = new RestClient({
    apiUrl: address.url,
    token,
    userAgent: 'kubectl-beat/1',
    isTunnel: address.isTunnel,
    timeoutMs: 30_000,
  });
  return {
    client,
    explain(error, notFound) {
      if (!(error instanceof ApiProblem)) return error;
      const fault = address.fault();
      if (error.status === 0) return new Refusal(fault ?? unreachable(address.url, error.detail));
      if (error.status === 404 && notFound !== undefined) return new Refusal(notFound);
      if (error.status === 401) {
        const account = `${release.name}-${roles[0]} in the namespace ${release.namespace}`;
        return new Refusal(
          `The API does not accept tokens of the service account ${account}: is --release right?`,
        );
      }
      return new Refusal(`The API refuses it: ${error.detail}`);
    },
    async close() {
      await client.close();
      await address.close();
    },
  };
}

function unreachable(url: string, why: string): string {
  return `The API does not answer at ${url}: check that it runs, and the context (${why}).`;
}

/** `--role`, or the roles that suffice, the least first. Throws a Refusal if it is none. */
export function chooseRoles(stated: string | undefined, sufficient: readonly Role[]): readonly Role[] {
  if (stated === undefined) return sufficient;
  const role = ROLES.find((one) => one === stated);
  if (role === undefined) throw new Refusal(`There is no role ${stated}: state viewer, member or owner.`);
  return [role];
}

/** A token of the first of the roles that the caller may have one of. */
export async function createToken(
  { transport }: Cluster,
  { namespace, name }: Release,
  roles: readonly Role[],
): Promise<string> {
  let forbidden: KubeError | undefined;
  for (const role of roles) {
    const account = `${name}-${role}`;
    const what = `create a token of the service account ${account} in the namespace ${namespace}`;
    const notFound = `There is no service account ${account} in the namespace ${namespace}: state the release with --release <namespace>/<name>.`;
    try {
      const answer = await transport.request({
        method: 'POST',
        path: `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
        body: {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenRequest',
          spec: { audiences: [AUDIENCE], expirationSeconds: TOKEN_SECONDS },
        },
      });
      return (answer as { status: { token: string } }).status.token;
    } catch (error) {
      if (!(error instanceof KubeError) || error.status !== 403) {
        return await attempt({ what, notFound }, () => Promise.reject(error));
      }
      forbidden ??= error;
    }
  }
  const accounts = roles.map((role) => `${name}-${role}`).join(' or ');
  throw new Refusal(
    `You may not create a token of the service account ${accounts} in the namespace ${namespace}: ask for the right to create serviceaccounts/token there (${forbidden?.message}).`,
  );
}

export interface ApiAddress {
  url: string;
  isTunnel: boolean;
  fault: Forward['fault'];
  close(): Promise<void>;
}

/** The address that the context names, else a forwarded port. */
export async function openAddress(
  cluster: Cluster,
  release: Release,
  options: ForwardOptions = {},
): Promise<ApiAddress> {
  if (cluster.api.url !== undefined) {
    return { url: cluster.api.url, isTunnel: false, fault: () => undefined, close: async () => undefined };
  }
  const forward = await forwardService(cluster, apiServiceOf(release), options);
  const scheme = forward.isTls ? 'https' : 'http';
  return {
    url: `${scheme}://127.0.0.1:${forward.port}`,
    isTunnel: true,
    fault: forward.fault,
    close: forward.close,
  };
}
