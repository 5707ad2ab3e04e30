// Runs the real helm on the chart and reads what it renders. Where there is no helm, it says what to install.
import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments, stringify } from 'yaml';
import { findOnPath, isExecutable } from '../../src/dev/processes/executable.ts';
import { type Outcome, runProgram } from '../support/run-program.ts';

export const CHART = fileURLToPath(new URL('../../charts/beatkeeper', import.meta.url));
export const RELEASE = 'beatkeeper';
export const NAMESPACE = 'monitoring';

/** The fields of a rendered object that tests read. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  [field: string]: unknown;
}

/** The path of a program in KUBEBUILDER_ASSETS, the project's cache, or PATH. Undefined when none has it. */
export async function findProgram(name: string): Promise<string | undefined> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'beatkeeper');
  const folders = [
    process.env.KUBEBUILDER_ASSETS,
    join(process.env.BEATKEEPER_CLUSTER_DIR ?? join(cache, 'cluster'), 'bin'),
  ];
  for (const folder of folders) {
    if (folder && (await isExecutable(join(folder, name)))) return join(folder, name);
  }
  return await findOnPath(name);
}

/** The path of helm. Without helm: undefined and a message on standard error; in CI it throws. */
export async function requireHelm(): Promise<string | undefined> {
  const helm = await findProgram('helm');
  if (helm !== undefined) return helm;
  const advice =
    'There is no helm: put helm 3.14 or newer on PATH, or into the folder that KUBEBUILDER_ASSETS names.';
  if (process.env.CI) throw new Error(advice);
  console.error(`The chart suite is skipped. ${advice}`);
  return undefined;
}

/** The values files in `ci`: one for each way to install the chart. */
export function listValuesFiles(): string[] {
  const folder = join(CHART, 'ci');
  return readdirSync(folder).map((name) => join(folder, name));
}

/** The same with their names, for titles of tests. */
export function listWays(): (readonly [name: string, file: string])[] {
  return listValuesFiles().map((file) => [basename(file, '-values.yaml'), file]);
}

/** Runs `helm template` with values files, and `values` over them. */
export async function template(helm: string, values: object = {}, ...files: string[]): Promise<Outcome> {
  const args = ['template', RELEASE, CHART, '--namespace', NAMESPACE, '--values', '-'];
  for (const file of files) args.push('--values', file);
  return await runProgram(helm, args, { input: stringify(values) });
}

/** The objects that `template` renders. Throws helm's message when helm refuses the values. */
export async function render(helm: string, values: object = {}, ...files: string[]): Promise<Manifest[]> {
  const { code, stdout, stderr } = await template(helm, values, ...files);
  if (code !== 0) throw new Error(stderr);
  return readManifests(stdout);
}

/** The objects in what helm has rendered. */
export function readManifests(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document) => {
      if (document.errors.length > 0) throw new Error(`${document.errors[0]?.message}\n${document}`);
      return document.toJS() as Manifest | null;
    })
    .filter((manifest) => manifest !== null);
}

/** The object of this kind and name. Throws unless there is exactly one. */
export function pick(manifests: Manifest[], kind: string, name: string): Manifest {
  const found = manifests.filter((each) => each.kind === kind && each.metadata.name === name);
  const [only] = found;
  if (only === undefined || found.length > 1) throw new Error(`${found.length} of ${kind} ${name}`);
  return only;
}
