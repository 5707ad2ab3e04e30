import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { excludedFiles } from './test/support/not-on-citus.ts';

// The caller's settings for other programs (databases, clusters, the product) reach no test and no process that a test
// starts. The tests read DATABASE_URL, DISTRIBUTED_DATABASE_URL, TEST_*, NTFY_*, STRIPE_FIXTURES, BEATKEEPER_TEST_* and BEATKEEPER_CLUSTER_*.
const FOREIGN =
  /^(PG[A-Z]+|KUBECONFIG|KUBERNETES_.*|POD_NAMESPACE|NODE_USE_ENV_PROXY|HOST|PORT|RELAY_.*|BILLING_SOURCE|STRIPE_WEBHOOK_SECRET|BEATKEEPER_(?!TEST_|CLUSTER_).*)$/;
for (const name of Object.keys(process.env)) if (FOREIGN.test(name)) delete process.env[name];

// One project for each kind of real part that suites need, so that each project can run alone. `postgres` needs a Postgres
// server; `python` also Python; `operator` and `trips` a kube-apiserver; `chart` helm; `dev` starts the product as users do;
// `e2e` and `chaos` take minutes and have commands of their own.
// Time-outs end tests that hang: a machine that is ten times slower does not reach them.
const project = (name: string, include: string[], more: object = {}) => ({
  test: { name, include, environment: 'node', testTimeout: 240_000, hookTimeout: 240_000, ...more },
});
// Node keeps here what it has compiled of the product, for the many processes that tests start of it.
const compiled = mkdtempSync(join(tmpdir(), 'beatkeeper-compiled-'));
process.once('exit', () => rmSync(compiled, { recursive: true, force: true }));
const env = { NODE_COMPILE_CACHE: compiled };
// The files of these projects follow each other in the processes of the workers, which load the product once: that takes
// longer than most files. So a file leaves nothing behind: no timer, no spy, no variable of the environment.
const shared = { isolate: false, env };
const postgres = { ...shared, globalSetup: ['test/support/postgres-setup.ts'], pool: 'forks' };
const cluster = {
  ...shared,
  globalSetup: ['test/support/postgres-setup.ts', 'test/support/control-plane-setup.ts'],
  pool: 'forks',
};

// Projects with one number of workers run at once, the others after each other. Most tests wait more than they compute, so
// there is a worker more than there are processors. A cluster that the caller names is for one test file at a time.
const WORKERS = process.env.TEST_KUBECONFIG ? 1 : Math.min(availableParallelism() + 1, 6);

export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    // A server that ends slowly must end before the run does, else its folder stays.
    teardownTimeout: 60_000,
    projects: [
      project('unit', ['test/unit/**/*.test.ts', 'test/contract/**/*.test.ts'], shared),
      project(
        'postgres',
        [
          'test/store/**/*.test.ts',
          'test/api/**/*.test.ts',
          'test/ingest/**/*.test.ts',
          'test/sweeper/**/*.test.ts',
          'test/delivery/**/*.test.ts',
        ],
        postgres,
      ),
      project(
        'distributed',
        ['store', 'ingest', 'sweeper'].map((folder) => `test/${folder}/**/*.test.ts`),
        {
          globalSetup: ['test/support/distributed-setup.ts'],
          exclude: [...configDefaults.exclude, ...excludedFiles()],
          setupFiles: ['test/support/use-citus.ts'],
          pool: 'forks',
        },
      ),
      project('chart', ['test/chart/**/*.test.ts'], { env }),
      project('python', ['test/python/**/*.test.ts'], {
        ...postgres,
        isolate: true,
        testTimeout: 900_000,
        hookTimeout: 900_000,
        maxWorkers: 1,
      }),
      project('operator', ['test/kube/**/*.test.ts', 'test/operator/**/*.test.ts'], cluster),
      // They count what is called, which is not told of what was compiled before.
      project('trips', ['test/trips/**/*.test.ts'], { ...cluster, isolate: true, env: {}, maxWorkers: 1 }),
      project('dev', ['test/dev/**/*.test.ts'], {
        env,
        testTimeout: 600_000,
        hookTimeout: 600_000,
      }),
      project('browser', ['test/browser/**/*.test.ts'], {
        globalSetup: ['test/support/postgres-setup.ts', 'test/support/dashboard-setup.ts'],
        pool: 'forks',
        maxWorkers: 1,
      }),
      project('e2e', ['test/e2e/**/*.test.ts'], {
        globalSetup: ['test/support/postgres-setup.ts'],
        testTimeout: 600_000,
        hookTimeout: 900_000,
        maxWorkers: 1,
      }),
      project('chaos', ['test/chaos/**/*.test.ts'], {
        testTimeout: 900_000,
        hookTimeout: 300_000,
        maxWorkers: 1,
      }),
    ],
  },
});
