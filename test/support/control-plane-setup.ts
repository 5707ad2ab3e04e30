// vitest globalSetup: provides `kubeconfig`, the path of an administrator's kubeconfig of a control plane with
// the CRDs; '' where none can be had (then the operator suite leaves itself out), which is an error in CI.
import type { TestProject } from 'vitest/node';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { startTestControlPlane } from './control-plane.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Path of a kubeconfig, '' without a control plane. */
    kubeconfig: string;
  }
}

export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const plane = await startTestControlPlane();
  if (plane === undefined) {
    if (process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
    console.error(`The operator suite is left out. ${HOW_TO_GET_A_CONTROL_PLANE}`);
  }
  project.provide('kubeconfig', plane?.kubeconfig ?? '');
  return plane === undefined ? undefined : () => plane.stop();
}
