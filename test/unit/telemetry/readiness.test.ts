import { describe, expect, test } from 'vitest';
import { Readiness } from '../../../src/telemetry/readiness.ts';

describe('Readiness', () => {
  test('a process without checks is still starting', async () => {
    expect(await new Readiness().findFaults()).toHaveProperty('start');
  });

  test('names what is missing, also where a check throws', async () => {
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

  test('is never ready again once its end has begun', async () => {
    const readiness = new Readiness();
    readiness.addCheck('fine', async () => undefined);
    expect(await readiness.findFaults()).toEqual({});
    readiness.beginShutdown();
    expect(await readiness.findFaults()).toHaveProperty('shutdown');
  });
});
