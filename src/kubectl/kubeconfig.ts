// Finds the cluster as kubectl does: --kubeconfig, else the files of KUBECONFIG, else ~/.kube/config, else the pod's own
// account. It also reads what the context says of Beatkeeper's API (docs/contract/kubernetes.md, "kubectl beat").
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { KubeConfig, loadYaml } from '@kubernetes/client-node';
import { Refusal } from './refusal.ts';

/** The name of the extension of a context. */
export const API_EXTENSION = 'beatkeeper.dev/api';

/** What a context may say of the API, where no Service of the cluster leads to it, or where it has an address of its own. */
export interface ApiExtension {
  /** The address of the API. */
  url?: string;
  /** `<namespace>/<fullname>`: whose service accounts stand for roles. */
  release?: string;
}

export interface KubeconfigChoice {
  /** --kubeconfig. */
  file?: string;
  /** --context. */
  context?: string;
}

export interface ChosenContext {
  config: KubeConfig;
  /** Of the context; `default` if it states none. */
  namespace: string;
  api: ApiExtension;
}

/** Throws a Refusal if there is no such file or context. */
export function loadContext({ file, context }: KubeconfigChoice, env = process.env): ChosenContext {
  const files = findFiles(file, env);
  if (files.length === 0) return loadOwnAccount(env);
  const loaded = files.map(loadFile);
  const config = new KubeConfig();
  // Where two files state the same name, the first one counts, as for kubectl.
  config.loadFromOptions({
    clusters: firstByName(loaded.flatMap(({ config: { clusters } }) => clusters)),
    users: firstByName(loaded.flatMap(({ config: { users } }) => users)),
    contexts: firstByName(loaded.flatMap(({ config: { contexts } }) => contexts)),
    currentContext: context ?? loaded.map((one) => one.config.currentContext).find((name) => Boolean(name)),
  });
  const names = config
    .getContexts()
    .map(({ name }) => name)
    .sort();
  const chosen = config.getContexts().find(({ name }) => name === config.currentContext);
  if (chosen === undefined) throw new Refusal(noContext(config.currentContext, names));
  if (config.getCurrentCluster() === null) {
    throw new Refusal(
      `The context ${chosen.name} names the cluster ${chosen.cluster}, which the kubeconfig lacks.`,
    );
  }
  const owner = loaded.find((one) => one.config.contexts.some(({ name }) => name === chosen.name));
  return { config, namespace: chosen.namespace ?? 'default', api: readExtension(owner?.raw, chosen.name) };
}

function noContext(wanted: string | undefined, names: readonly string[]): string {
  const known = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`;
  return wanted
    ? `The kubeconfig has no context ${wanted}: ${known}.`
    : `The kubeconfig has no current context: name one with --context (${known}).`;
}

function findFiles(file: string | undefined, env: NodeJS.ProcessEnv): string[] {
  if (file !== undefined) {
    if (!existsSync(file)) throw new Refusal(`There is no kubeconfig ${file}: correct --kubeconfig.`);
    return [file];
  }
  const named = (env.KUBECONFIG ?? '').split(delimiter).filter((name) => name !== '');
  if (named.length > 0) {
    const found = named.filter((name) => existsSync(name));
    if (found.length === 0)
      throw new Refusal(`There is no kubeconfig ${named.join(', ')}: correct KUBECONFIG.`);
    return found;
  }
  const usual = join(homedir(), '.kube', 'config');
  return existsSync(usual) ? [usual] : [];
}

function loadOwnAccount(env: NodeJS.ProcessEnv): ChosenContext {
  if (env.KUBERNETES_SERVICE_HOST === undefined) {
    throw new Refusal('There is no kubeconfig: set KUBECONFIG, or state --kubeconfig.');
  }
  const config = new KubeConfig();
  config.loadFromCluster();
  const namespace = config.getContexts()[0]?.namespace?.trim();
  return { config, namespace: namespace || 'default', api: {} };
}

interface LoadedFile {
  config: KubeConfig;
  /** All of it: KubeConfig drops extensions. */
  raw: RawConfig;
}

interface RawConfig {
  contexts?: { name?: string; context?: { extensions?: { name?: string; extension?: unknown }[] } }[];
}

function loadFile(file: string): LoadedFile {
  const config = new KubeConfig();
  try {
    config.loadFromFile(file);
    return { config, raw: loadYaml<RawConfig>(readFileSync(file, 'utf8')) };
  } catch (error) {
    const [why] = (error as Error).message.split('\n');
    throw new Refusal(`The kubeconfig ${file} cannot be read: ${why}.`);
  }
}

function firstByName<T extends { name: string }>(items: readonly T[]): T[] {
  return [...new Map(items.toReversed().map((item) => [item.name, item])).values()];
}

function readExtension(raw: RawConfig | undefined, context: string): ApiExtension {
  const extensions = raw?.contexts?.find(({ name }) => name === context)?.context?.extensions ?? [];
  const found = extensions.find(({ name }) => name === API_EXTENSION)?.extension;
  if (found === undefined || found === null) return {};
  const { url, release } = found as Record<string, unknown>;
  const isAddress = typeof url === 'string' && /^https?:$/.test(URL.parse(url)?.protocol ?? '');
  if (url !== undefined && !isAddress) {
    throw new Refusal(
      `The extension ${API_EXTENSION} of the context ${context} has no http address as url: correct it.`,
    );
  }
  return {
    ...(typeof url === 'string' ? { url } : {}),
    ...(typeof release === 'string' ? { release } : {}),
  };
}
