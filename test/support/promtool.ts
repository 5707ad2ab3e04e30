// promtool, which checks and tests alert rules: that of this machine, or built once from its Go module.
import { findOnPath } from '../../src/dev/processes/executable.ts';
import { findGoProgram } from './go-program.ts';

export const HOW_TO_GET_PROMTOOL =
  'There is no promtool: put one on PATH, or install Go 1.26 or newer, which builds it once, in about a minute.';

/** The path of promtool; undefined without it and without Go. Throws the compiler's words. */
export async function findPromtool(): Promise<string | undefined> {
  return (
    (await findOnPath('promtool')) ??
    (await findGoProgram({
      name: 'promtool',
      version: 'v0.316.0',
      package: 'github.com/prometheus/prometheus/cmd/promtool',
      // Without the clients of all clouds, by which a Prometheus finds its targets: rules need none.
      tags: 'remove_all_sd',
    }))
  );
}
