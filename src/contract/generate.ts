// Writes the CRDs from the contract (`npm run generate`). With `--check` it writes nothing and fails if a file differs.
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { crdManifests } from './crd/crd-manifests.ts';
import { VERSION_ANNOTATION } from './crd/custom-resources.ts';
import type { JsonObject } from './json-schema.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** The chart has copies: Helm installs CRDs from its own folder. */
const FOLDERS = ['crds/', 'charts/beatkeeper/crds/'];
const HEADER = '# Generated from src/contract by `npm run generate`. Do not edit.\n';

/** kubectl and Helm read YAML 1.1, in which a time without quotes is no text. */
const YAML_OPTIONS = { lineWidth: 0, aliasDuplicateObjects: false, version: '1.1' } as const;

/** Path below the root of the project -> content. */
export function generatedFiles(): Map<string, string> {
  const files = new Map<string, string>();
  for (const [name, manifest] of Object.entries(crdManifests())) {
    const content = HEADER + stringify(withVersion(manifest), YAML_OPTIONS);
    for (const folder of FOLDERS) files.set(folder + name, content);
  }
  return files;
}

/** An older version never replaces a newer one (src/install/apply-crds.ts). */
function withVersion(manifest: JsonObject): JsonObject {
  const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'));
  const metadata = manifest.metadata as JsonObject & { annotations?: JsonObject };
  const annotations = { ...metadata.annotations, [VERSION_ANNOTATION]: version };
  return { ...manifest, metadata: { ...metadata, annotations } };
}

async function readExisting(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function main(checkOnly: boolean): Promise<number> {
  const stale: string[] = [];
  for (const [name, content] of generatedFiles()) {
    const path = ROOT + name;
    if ((await readExisting(path)) === content) continue;
    stale.push(relative(ROOT, path));
    if (checkOnly) continue;
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  if (checkOnly && stale.length > 0) {
    console.error(`Out of date: ${stale.join(', ')}. Run "npm run generate" and commit the result.`);
    return 1;
  }
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exitCode = await main(process.argv.includes('--check'));
}
