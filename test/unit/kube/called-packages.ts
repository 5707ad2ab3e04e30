// A process of its own: calls the Kubernetes API of each kubeconfig that its arguments name, and prints which packages
// were loaded, and in which files of packages a function was called after that.
import { Session } from 'node:inspector/promises';

export interface PackageUse {
  loaded: string[];
  /** `<package>/<file>`. */
  called: string[];
}

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const { loadKubeConfig } = await import('../../../src/kube/load-kube-config.ts');
const { KubeTransport } = await import('../../../src/kube/kube-transport.ts');
const loaded = new Set((await takeCalledFiles(0)).map((file) => /^(@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? file));

for (const path of process.argv.slice(2)) {
  const transport = new KubeTransport({ loadConfig: () => loadKubeConfig(path), userAgent: 'test/1' });
  await transport.request({ method: 'GET', path: '/version' });
  await transport.close();
}
const use: PackageUse = { loaded: [...loaded].sort(), called: await takeCalledFiles(1) };
process.stdout.write(JSON.stringify(use));

/** Of packages, without undici. Taking the calls resets their counts. A module's own code begins at offset 0. */
async function takeCalledFiles(fromOffset: number): Promise<string[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const files = result.flatMap(({ url, functions }) => {
    const [, file] = /.*\/node_modules\/(.+)$/.exec(url) ?? [];
    const isCalled = functions.some(
      ({ ranges: [range] }) => range && range.count > 0 && range.startOffset >= fromOffset,
    );
    return file !== undefined && isCalled && !file.startsWith('undici/') ? [file] : [];
  });
  return [...new Set(files)].sort();
}
