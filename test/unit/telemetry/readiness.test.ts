import { describe, expect, test } from 'vitest';
import { Readiness } from '../../../src/telemetry/readiness.ts';

describe('Readiness', () => {
  test('a process without checks is still starting and not ready', async () => {
    expect(await new Readiness().findFaults()).toHaveProperty('start');
  });

  test('findFaults names each fault, also of a check that throws', async () => {
    const readiness = new Readiness();
    readiness.addCheck('fine', async () => undefined);
    readiness.addCheck('database', async () => {
      throw new Error('connection refused');
    });
    readiness.addCheck('schema', async () => 'version 1, this build needs 2');
    expect(await readiness.findFaults()).toEqual({
      database: 'connection refused',
      schema: 'version 1, this build needs 2',
    });
  });

  test('a process is not ready after its shutdown has begun', async () => {
    const readiness = new Readiness();
    readiness.addCheck('fine', async () => undefined);
    expect(await readiness.findFaults()).toEqual({});
    readiness.beginShutdown();
    expect(await readiness.findFaults()).toHaveProperty('shutdown');
  });
});
