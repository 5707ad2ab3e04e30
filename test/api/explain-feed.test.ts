// The sentence of each item of the status feed (docs/contract/monitors.md): that of explain.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { at, DAY_MS, MINUTE_MS, makeExplained } from './explain-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});
const make = (body: object = {}) => makeExplained(api, body);

describe('the sentence of the status feed', () => {
  const withoutDays = (words: string) => words.replaceAll(/\d{4}-\d{2}-\d{2} /g, '');

  it('is that of explain, with the day of each time', async () => {
    const monitor = await make({ recoveryBeats: 2 });
    const told: string[] = [];
    const tell = async () => {
      const because = await monitor.because();
      const { because: explained } = await monitor.explain();
      expect(withoutDays(because)).toBe(withoutDays(explained));
      expect(because.match(/ UTC/g)?.length).toBe(because.match(/\d{4}-\d{2}-\d{2} \d/g)?.length);
      told.push(withoutDays(because));
    };
    await tell();
    await monitor.beat();
    await tell();
    await monitor.age(64 * MINUTE_MS);
    await tell();
    await monitor.age(26 * MINUTE_MS);
    await moveClock(api.pool);
    await drain(makeSweep(api.pool));
    await tell();
    await monitor.beat();
    await tell();
    // It opens again, since another time.
    await monitor.age(95 * MINUTE_MS);
    await moveClock(api.pool);
    await drain(makeSweep(api.pool));
    await tell();
    await monitor.act('enter_maintenance', {
      ...{ startsAt: at(Date.now() - MINUTE_MS), endsAt: at(Date.now() + DAY_MS), reason: 'New disks' },
    });
    await tell();
    await monitor.act('pause');
    await tell();
    await monitor.act('archive');
    await tell();
    expect(told.map((words) => words.replaceAll(/\d{2}:\d{2}:\d{2} UTC/g, 'TIME'))).toEqual([
      'Waiting for the first beat: no deadline runs before the first beat.',
      'Up: the last beat came at TIME; the deadline is TIME (interval 1 h, grace 5 min).',
      'Late since TIME: the last beat came at TIME; the deadline is TIME (interval 1 h, grace 5 min).',
      'Down since TIME: no beat since TIME; the deadline was TIME (interval 1 h, grace 5 min).',
      expect.stringMatching(/^Recovering since TIME: No beat .* It is over after 2 successes in a row\.$/),
      'Down since TIME: no beat since TIME; the deadline was TIME (interval 1 h, grace 5 min).',
      expect.stringMatching(
        /^In maintenance until TIME \(New disks\): nothing opens before\. An incident of severity critical is open since TIME: No beat came before the deadline at \S+Z\.$/,
      ),
      expect.stringMatching(/^Paused since TIME by .+: beats are recorded, and no deadline runs\.$/),
      expect.stringMatching(/^Archived since TIME by .+: beats are refused\.$/),
    ]);
    expect(told[5]).not.toBe(told[3]);
  });

  it('of one that is up goes on with the gravest incident of a rule, in the words of explain, until that is over', async () => {
    const rulePolicy = { consecutiveObservations: 1, severity: 'info' };
    const monitor = await make();
    await monitor.patch({ measurements: { rows: { minimum: 10 }, size: { maximum: 4, rulePolicy } } });
    const told: string[] = [];
    for (const measurements of [
      { rows: 3, size: 5 },
      { rows: 4, size: 2 },
      { rows: 12, size: 2 },
    ]) {
      expect((await monitor.measure(measurements)).status).toBe(200);
      const because = await monitor.because();
      const { health, because: explained } = await monitor.explain();
      expect([health, withoutDays(because)]).toEqual(['up', withoutDays(explained)]);
      told.push(because.slice(because.indexOf('.') + 1));
    }
    // The next violation says what opened it, and since when it is open.
    const { items } = (await api.read.expectSuccess('listMonitorIncidents', { params: monitor.params })).body;
    const opened = items.find(({ measurement }) => measurement === 'rows')?.openedAt ?? '';
    const since = `${opened.slice(0, 19).replace('T', ' ')} UTC`;
    const words = ` An incident of severity warning is open since ${since}: rows is 3, below its minimum of 10.`;
    expect(told).toEqual([`${words} And 1 more.`, words, '']);
  });

  it('of a monitor that was changed very often since it was paused does not say by whom', async () => {
    const monitor = await make();
    await monitor.act('pause');
    await api.pool.query(
      `with m as (update monitors set configuration_version = configuration_version + 100 where monitor_id = $1
         returning monitor_key)
       update monitor_live set configuration_version = configuration_version + 100 where monitor_key in (table m)`,
      [monitor.params.monitorId],
    );
    expect(await monitor.because()).toBe('Paused: beats are recorded, and no deadline runs.');
  });
});
