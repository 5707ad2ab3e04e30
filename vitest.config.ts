import { defineConfig } from 'vitest/config';

// What whoever runs the tests has set for other programs reaches no test, nor what it starts: settings of a database, of
// a cluster, of the product. By their names the tests read DATABASE_URL, TEST_*, BEATKEEPER_TEST_* and BEATKEEPER_CLUSTER_*.
const FOREIGN =
  /^(PG[A-Z]+|KUBECONFIG|KUBERNETES_.*|POD_NAMESPACE|NODE_USE_ENV_PROXY|HOST|PORT|BEATKEEPER_(?!TEST_|CLUSTER_).*)$/;
for (const name of Object.keys(process.env)) if (FOREIGN.test(name)) delete process.env[name];

// One project per kind of real part that a suite needs, so that each can be run alone.
// `postgres`: a Postgres server. `operator`, `trips`: a kube-apiserver besides. `chart`: helm. `dev`: the product
// as users start it. `e2e`, `chaos`: minutes long, commands of their own.
// Time-outs are for what hangs: no test is so long that a machine ten times slower would meet one.
const project = (name: string, include: string[], more: object = {}) => ({
  test: { name, include, environment: 'node', testTimeout: 240_000, hookTimeout: 240_000, ...more },
});
const postgres = { globalSetup: ['test/support/postgres-setup.ts'], pool: 'forks', maxWorkers: 2 };
const cluster = {
  globalSetup: ['test/support/postgres-setup.ts', 'test/support/control-plane-setup.ts'],
  pool: 'forks',
  maxWorkers: 1,
};

export default defineConfig({
  test: {
    // A server that takes its time to end is waited for, else its folder stays.
    teardownTimeout: 60_000,
    projects: [
      project('unit', ['test/unit/**/*.test.ts', 'test/contract/**/*.test.ts']),
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
      project('chart', ['test/chart/**/*.test.ts']),
      project('operator', ['test/kube/**/*.test.ts', 'test/operator/**/*.test.ts'], cluster),
      project('trips', ['test/trips/**/*.test.ts'], cluster),
      project('dev', ['test/dev/**/*.test.ts'], {
        testTimeout: 600_000,
        hookTimeout: 600_000,
        maxWorkers: 1,
      }),
      project('e2e', ['test/e2e/**/*.test.ts'], {
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
