// Helm 3 for tests that mix it with Helm 4: built from its Go module, once.
import { findGoProgram } from './go-program.ts';

const VERSION = 'v3.22.0';

export const HOW_TO_GET_HELM_3 = `There is no Helm 3: install Go, which builds ${VERSION} once, in some minutes.`;

/** The path of Helm 3; undefined without Go. Throws the compiler's words. */
export async function findHelm3(): Promise<string | undefined> {
  return await findGoProgram({ name: 'helm', version: VERSION, package: 'helm.sh/helm/v3/cmd/helm' });
}
