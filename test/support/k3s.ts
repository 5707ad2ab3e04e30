// A control plane where no binaries can be had: k3s in Docker.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GenericContainer, Wait } from 'testcontainers';

const IMAGE = 'rancher/k3s:v1.34.1-k3s1';

/** Starts k3s and writes its kubeconfig; undefined without Docker or without its image. */
export async function startK3s(): Promise<{ kubeconfig: string; stop(): Promise<void> } | undefined> {
  const container = await new GenericContainer(IMAGE)
    .withPrivilegedMode()
    .withExposedPorts(6443)
    .withTmpFs({ '/run': '', '/var/run': '' })
    .withCommand(['server', '--disable=traefik,servicelb,metrics-server', '--tls-san=127.0.0.1'])
    .withWaitStrategy(Wait.forLogMessage(/Node controller sync successful/))
    .withStartupTimeout(300_000)
    .start()
    .catch(() => undefined);
  if (container === undefined) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-k3s-'));
  const { output } = await container.exec(['cat', '/etc/rancher/k3s/k3s.yaml']);
  const kubeconfig = join(folder, 'kubeconfig');
  const server = `https://127.0.0.1:${container.getMappedPort(6443)}`;
  await writeFile(kubeconfig, output.replace('https://127.0.0.1:6443', server), { mode: 0o600 });
  return {
    kubeconfig,
    async stop() {
      await container.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
