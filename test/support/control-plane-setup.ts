// vitest globalSetup: one control plane with the CRDs for each worker, which starts when a test of the worker asks for it.
// Workers share none: an operator that watches all namespaces would take the objects of the test file beside it.
import { createServer } from 'node:http';
import type { TestProject } from 'vitest/node';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { startTestControlPlane, type TestControlPlane } from './control-plane.ts';
import { listen } from './listen.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** `GET <address>/<worker>` answers with the path of an administrator's kubeconfig; '' without a control plane. */
    controlPlanes: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const planes = new Map<string, Promise<TestControlPlane | undefined>>();
  let hasWarned = false;
  const kubeconfigOf = async (worker: string): Promise<string> => {
    const starting = planes.get(worker) ?? startTestControlPlane();
    planes.set(worker, starting);
    const plane = await starting;
    if (plane === undefined && process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
    if (plane === undefined && !hasWarned)
      console.error(
        `The operator suite is skipped: there is no control plane. ${HOW_TO_GET_A_CONTROL_PLANE}`,
      );
    hasWarned ||= plane === undefined;
    return plane?.kubeconfig ?? '';
  };
  const server = createServer((request, response) => {
    kubeconfigOf(request.url ?? '').then(
      (kubeconfig) => response.end(kubeconfig),
      (error) => response.writeHead(500).end(String(error)),
    );
  });
  const { port, close } = await listen(server);
  project.provide('controlPlanes', `http://127.0.0.1:${port}`);
  return async () => {
    await close();
    const started = await Promise.allSettled(planes.values());
    await Promise.all(
      started.map((plane) => (plane.status === 'fulfilled' ? plane.value?.stop() : undefined)),
    );
  };
}
