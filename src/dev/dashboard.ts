// Builds the dashboard for a development run, and again on each change where it is asked to.
import { fileURLToPath } from 'node:url';

export interface DashboardOptions {
  /** Also after the first build, until `close`. */
  watch: boolean;
  print: (text: string) => void;
}

/** Never rejects: without the dashboard all else works. */
export async function buildDashboard({
  watch,
  print,
}: DashboardOptions): Promise<{ close(): Promise<void> }> {
  try {
    // Here, so that only a development run needs it.
    const { build } = await import('vite');
    const configFile = fileURLToPath(new URL('../dashboard/vite.config.ts', import.meta.url));
    const built = await build({
      configFile,
      configLoader: 'runner',
      logLevel: 'silent',
      build: watch ? { watch: {} } : {},
    });
    if (!('close' in built)) return NOTHING;
    built.on('event', (event) => {
      if (event.code === 'ERROR') print(`The dashboard could not be built: ${event.error.message}`);
      if (event.code === 'END') print('The dashboard is built: reload the page.');
    });
    return { close: () => built.close() };
  } catch (error) {
    print(`The dashboard could not be built: ${(error as Error).message}`);
    return NOTHING;
  }
}

const NOTHING = { close: async () => undefined };
