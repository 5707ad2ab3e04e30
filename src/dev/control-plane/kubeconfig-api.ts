// Says in the kubeconfig of a run where its API is, because no Service of the cluster leads to it: the extension
// `beatkeeper.dev/api` of the context, which `kubectl beat` reads (docs/contract/kubernetes.md).
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { parse, stringify } from 'yaml';

export interface ApiOfRun {
  url: string;
  /** `<namespace>/<fullname>`: whose service accounts stand for roles. */
  release: string;
}

const EXTENSION = 'beatkeeper.dev/api';

/** Writes a copy of the kubeconfig `from` to `to`, which may be the same file, with the API in its current context. */
export async function writeKubeconfigWithApi(from: string, to: string, api: ApiOfRun): Promise<void> {
  const text = withApi(await readFile(from, 'utf8'), dirname(resolve(from)), api);
  await mkdir(dirname(to), { recursive: true });
  // Other processes of the run read the file at any time.
  await writeFile(`${to}.new`, text, { mode: 0o600 });
  await rename(`${to}.new`, to);
}

/** `folder` is that of the kubeconfig: the paths in it may be relative to it. */
export function withApi(kubeconfig: string, folder: string, api: ApiOfRun): string {
  const config: Kubeconfig = parse(kubeconfig);
  for (const { cluster } of config.clusters ?? []) absolve(cluster, ['certificate-authority'], folder);
  for (const { user } of config.users ?? []) {
    absolve(user, ['client-certificate', 'client-key', 'tokenFile', 'token-file'], folder);
    // A command without a slash is looked up in PATH.
    const exec = user?.exec as Fields | undefined;
    if (String(exec?.command ?? '').includes('/')) absolve(exec, ['command'], folder);
  }
  const current = config.contexts?.find(({ name }) => name === config['current-context']);
  if (current?.context) {
    const others = (current.context.extensions ?? []).filter(({ name }) => name !== EXTENSION);
    current.context.extensions = [...others, { name: EXTENSION, extension: api }];
  }
  return stringify(config);
}

type Fields = Record<string, unknown>;

interface Kubeconfig {
  'current-context'?: string;
  clusters?: { cluster?: Fields }[];
  users?: { user?: Fields }[];
  contexts?: {
    name?: string;
    context?: { extensions?: { name?: string; extension?: unknown }[] };
  }[];
}

function absolve(fields: Fields | undefined, names: readonly string[], folder: string): void {
  for (const name of names) {
    const path = fields?.[name];
    if (fields && typeof path === 'string' && path !== '' && !isAbsolute(path))
      fields[name] = join(folder, path);
  }
}
