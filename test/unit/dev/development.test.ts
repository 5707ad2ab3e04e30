import { describe, expect, test } from 'vitest';
import { lowerMinimums } from '../../../src/dev/control-plane/development-cluster.ts';
import { readDevelopmentOptions } from '../../../src/dev/development-options.ts';
import { baseEnvironment } from '../../../src/dev/processes/role-processes.ts';
import { pauseMs } from '../../../src/dev/processes/supervisor.ts';

describe('the pause before a start', () => {
  test('a process restarts at once after its first death, later with pauses of up to 5 s', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 50].map(pauseMs)).toEqual([0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
  });
});

describe('baseEnvironment', () => {
  test('billing by Stripe passes through to the roles, and a database or a port of the user does not', () => {
    const billing = { BILLING_SOURCE: 'stripe', STRIPE_WEBHOOK_SECRET: 'whsec_1234' };
    expect(
      baseEnvironment({ ...billing, DATABASE_URL: 'postgres://x', PORT: '1', BEATKEEPER_PLAN: 'free' }),
    ).toEqual(billing);
  });
});

describe('lowerMinimums', () => {
  const crd = (minimum: number) => ({
    metadata: { name: 'monitors.beatkeeper.dev' },
    spec: {
      versions: [
        {
          properties: {
            intervalSeconds: { type: 'integer', minimum },
            graceSeconds: { type: 'integer', minimum },
            recoveryBeats: { minimum: 60 },
          },
        },
      ],
    },
  });

  test('lowerMinimums changes only the minimum of interval and grace', () => {
    const lowered = lowerMinimums(crd(60), 2) as ReturnType<typeof crd>;
    expect(lowered.spec.versions[0]?.properties).toEqual({
      intervalSeconds: { type: 'integer', minimum: 2 },
      graceSeconds: { type: 'integer', minimum: 2 },
      recoveryBeats: { minimum: 60 },
    });
  });

  test('lowerMinimums leaves a definition unchanged for the default minimum', () => {
    expect(lowerMinimums(crd(60), 60)).toEqual(crd(60));
  });
});

describe('readDevelopmentOptions', () => {
  test('readDevelopmentOptions returns the documented defaults', () => {
    expect(readDevelopmentOptions([], {})).toMatchObject({
      port: 8080,
      cluster: true,
      examples: true,
      replicas: 1,
      minimumIntervalSeconds: 60,
    });
  });

  test('readDevelopmentOptions reads arguments and environment', () => {
    const env = { PORT: '0', BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1', BEATKEEPER_STATE_DIR: '/tmp/x' };
    expect(readDevelopmentOptions(['--no-cluster', '--no-examples', '--replicas', '3'], env)).toMatchObject({
      port: 0,
      stateFolder: '/tmp/x',
      cluster: false,
      examples: false,
      replicas: 3,
      minimumIntervalSeconds: 1,
    });
  });

  test.each([
    [['--replicas', '0'], {}],
    [['--replicas', 'two'], {}],
    [['--nope'], {}],
    [['extra'], {}],
    [[], { PORT: '65536' }],
    [[], { PORT: 'http' }],
    [[], { BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '0' }],
  ])('readDevelopmentOptions refuses the arguments %j with the environment %j', (args, env) => {
    expect(() => readDevelopmentOptions(args, env)).toThrow();
  });
});
