// vitest globalSetup: provides `kubeconfig`, the path of an administrator's kubeconfig for a control plane with the CRDs.
// It is '' where no control plane can be had: then the operator suite is skipped, and CI fails.
import type { TestProject } from 'vitest/node';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { startTestControlPlane } from './control-plane.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Path of a kubeconfig; '' without a control plane. */
    kubeconfig: string;
  }
}

export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const plane = await startTestControlPlane();
  if (plane === undefined) {
    if (process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
    console.error(`The operator suite is skipped: there is no control plane. ${HOW_TO_GET_A_CONTROL_PLANE}`);
  }
  project.provide('kubeconfig', plane?.kubeconfig ?? '');
  return plane === undefined ? undefined : () => plane.stop();
}
