import { beforeEach, describe, expect, test } from 'vitest';
import { createLog } from '../../../src/telemetry/log.ts';
import { Readiness } from '../../../src/telemetry/readiness.ts';

describe('Readiness', () => {
  let lines: Record<string, unknown>[];
  let now: number;
  let readiness: Readiness;
  beforeEach(() => {
    lines = [];
    now = 50_000;
    const log = createLog(
      { role: 'test', level: 'info' },
      { write: (line: string) => void lines.push(JSON.parse(line)) },
    );
    readiness = new Readiness(log, () => now);
  });
  const logged = () => lines.map(({ level, check, fault }) => ({ level, check, fault }));

  test('a process without checks is still starting and not ready', async () => {
    expect(await readiness.readReadiness()).toEqual({ status: 'starting', checks: {} });
  });

  test('a report names each check in generic words, also one that throws, and the log has the faults', async () => {
    readiness.addCheck('fine', async () => undefined);
    readiness.addCheck('database', async () => {
      throw new Error('connect ECONNREFUSED 10.0.0.7:5432');
    });
    readiness.addCheck('schema', async () => 'version 1, this build needs 2');
    expect(await readiness.readReadiness()).toEqual({
      status: 'failing',
      checks: { fine: 'ok', database: 'failing', schema: 'failing' },
    });
    expect(logged()).toEqual([
      { level: 'info', check: 'database', fault: 'connect ECONNREFUSED 10.0.0.7:5432' },
      { level: 'info', check: 'schema', fault: 'version 1, this build needs 2' },
    ]);
  });

  test('advice is shown and logged, and leaves the process ready', async () => {
    readiness.addCheck('caches', async () => undefined);
    readiness.addCheck('namespaces', async () => 'Cannot read shop.', { isAdvice: true });
    expect(await readiness.readReadiness()).toEqual({
      status: 'degraded',
      checks: { caches: 'ok', namespaces: 'failing' },
    });
    expect(logged()).toEqual([{ level: 'info', check: 'namespaces', fault: 'Cannot read shop.' }]);
  });

  test('the checks run once a second, however many ask, and all at once get the same run', async () => {
    let runs = 0;
    let run = Promise.withResolvers<undefined>();
    readiness.addCheck('database', () => {
      runs += 1;
      return run.promise;
    });
    const waiting = [readiness.readReadiness(), readiness.readReadiness(), readiness.readReadiness()];
    now += 5_000;
    waiting.push(readiness.readReadiness());
    run.resolve(undefined);
    for (const report of await Promise.all(waiting)) expect(report.status).toBe('ok');
    expect(runs).toBe(1);
    now += 999;
    await readiness.readReadiness();
    expect(runs).toBe(1);
    run = Promise.withResolvers();
    run.reject(new Error('away'));
    now += 1;
    expect(await readiness.readReadiness()).toEqual({ status: 'failing', checks: { database: 'failing' } });
    expect(runs).toBe(2);
  });

  test('the log has one line when a check begins to fail, fails otherwise, or is well again', async () => {
    let fault: string | undefined;
    readiness.addCheck('database', async () => fault);
    for (const next of [undefined, 'away', 'away', 'slow', undefined, undefined]) {
      fault = next;
      await readiness.readReadiness();
      now += 1_000;
    }
    expect(logged()).toEqual([
      { level: 'warn', check: 'database', fault: 'away' },
      { level: 'warn', check: 'database', fault: 'slow' },
      { level: 'info', check: 'database', fault: undefined },
    ]);
  });

  test('a check that allows silence makes the process unready until it has passed once, and by a fault that it finds', async () => {
    let answer: () => Promise<string | undefined> = () => Promise.reject(new Error('away'));
    readiness.addCheck('database', () => answer(), { allowsSilence: true });
    const read = async () => {
      now += 1_000;
      return await readiness.readReadiness();
    };
    const failing = { database: 'failing' };
    expect(await read()).toEqual({ status: 'failing', checks: failing });
    answer = async () => undefined;
    expect(await read()).toEqual({ status: 'ok', checks: { database: 'ok' } });
    answer = () => Promise.reject(new Error('away'));
    expect(await read()).toEqual({ status: 'degraded', checks: failing });
    answer = async () => 'it is too old';
    expect(await read()).toEqual({ status: 'failing', checks: failing });
    expect(logged().map(({ fault }) => fault)).toEqual(['away', undefined, 'away', 'it is too old']);
  });

  test('a process is degraded only if no check but silent ones fails', async () => {
    let isAway = false;
    readiness.addCheck('database', async () => (isAway ? Promise.reject(new Error('away')) : undefined), {
      allowsSilence: true,
    });
    readiness.addCheck('session', async () => (isAway ? 'refused' : undefined));
    expect((await readiness.readReadiness()).status).toBe('ok');
    isAway = true;
    now += 1_000;
    expect((await readiness.readReadiness()).status).toBe('failing');
  });

  test('a process is not ready from the moment on at which its shutdown begins', async () => {
    readiness.addCheck('fine', async () => undefined);
    expect(await readiness.readReadiness()).toEqual({ status: 'ok', checks: { fine: 'ok' } });
    readiness.beginShutdown();
    expect(await readiness.readReadiness()).toEqual({ status: 'ending', checks: {} });
  });

  test('only a vital check says that the process is not alive', async () => {
    readiness.addCheck('database', async () => 'away');
    expect(await readiness.readLife()).toEqual({ status: 'ok', checks: {} });
    readiness.addVitalCheck('watches', async () => 'deaf');
    expect(await readiness.readLife()).toEqual({ status: 'failing', checks: { watches: 'failing' } });
  });
});
