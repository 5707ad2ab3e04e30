// Senders that send each beat once, with no second attempt, and faults of all kinds. Whatever happens to the service, no
// job that lives gets an incident, and each one that died is found within interval and grace of the end of the fault.
// BEATKEEPER_TEST_LENGTH=long takes 10,000 senders and longer faults at two apis and at one, which takes an hour;
// BEATKEEPER_TEST_SENDERS, _PERIOD_SECONDS and _APIS choose another size, and BEATKEEPER_TEST_REPORT names a file to
// which each result is added as a line of JSON; the log of the product is written beside it.
import { appendFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Experiment, type Fault, type Scale } from './experiment.ts';
import { apiKilled, databaseStopped, flooded, tablesLocked, underLoad } from './faults.ts';
import type { FaultResult } from './judgement.ts';

const IS_LONG = process.env.BEATKEEPER_TEST_LENGTH === 'long';
const {
  BEATKEEPER_TEST_REPORT,
  BEATKEEPER_TEST_SENDERS,
  BEATKEEPER_TEST_PERIOD_SECONDS,
  BEATKEEPER_TEST_APIS,
} = process.env;
const PERIOD_SECONDS = Number(BEATKEEPER_TEST_PERIOD_SECONDS ?? (IS_LONG ? 10 : 3));
const APIS = (BEATKEEPER_TEST_APIS ?? (IS_LONG ? '2,1' : '2')).split(',').map(Number);
const SCALE: Omit<Scale, 'apis'> = {
  senders: Number(BEATKEEPER_TEST_SENDERS ?? (IS_LONG ? 10_000 : 300)),
  periodMs: PERIOD_SECONDS * 1_000,
  intervalSeconds: PERIOD_SECONDS,
  graceSeconds: Math.floor(PERIOD_SECONDS * 0.8),
};
/** Two beats of one silence that two deaths took can't be told from a dead job. */
const BETWEEN_DEATHS_MS = SCALE.periodMs * 2.5;
const ANSWER_MS = 10_000;

const stopped = databaseStopped(12_000, 'fast');
const killed = apiKilled(IS_LONG ? 10 : 2, BETWEEN_DEATHS_MS);
const locked = IS_LONG
  ? tablesLocked(Array(3).fill('observations'), 20_000, 10_000)
  : tablesLocked(['observations', 'monitor_live'], 9_000, 3_000);
const flood = flooded(IS_LONG ? 60_000 : 10_000);

describe.each(APIS)('with %i apis', (apis) => {
  let experiment: Experiment;

  beforeAll(async () => {
    experiment = await Experiment.start({ ...SCALE, apis });
  });
  afterAll(async () => {
    if (BEATKEEPER_TEST_REPORT && experiment)
      await writeFile(`${BEATKEEPER_TEST_REPORT}.${apis}.log`, experiment.log);
    await experiment?.end();
  });

  async function live(fault: Fault): Promise<FaultResult> {
    const result = await experiment.run(fault);
    console.log(JSON.stringify(result));
    if (BEATKEEPER_TEST_REPORT) await appendFile(BEATKEEPER_TEST_REPORT, `${JSON.stringify(result)}\n`);
    expect(result).toMatchObject({ falseIncidents: 0, late: 0, found: result.died });
    // Its machine does nothing else.
    if (IS_LONG) expect(result.slowestMs).toBeLessThanOrEqual(ANSWER_MS);
    return result;
  }

  it('Postgres that is stopped makes no false alert, and no beat is refused once it answers', async () => {
    expect((await live(stopped)).lostAfter).toEqual({});
  });

  it('an api that is killed again and again makes no false alert', async () => {
    await live(killed);
  });

  it('locks on tables that beats need make no false alert', async () => {
    await live(locked);
  });

  it('a flood on other monitors makes no false alert', async () => {
    await live(flood);
  });

  if (IS_LONG) {
    it('Postgres that crashes for ten minutes makes no false alert', async () => {
      expect((await live(databaseStopped(600_000, 'immediate'))).lostAfter).toEqual({});
    });

    it('locks on the live rows make no false alert', async () => {
      await live(tablesLocked(Array(3).fill('monitor_live'), 20_000, 10_000));
    });
  }

  const loaded = IS_LONG ? [stopped, killed, locked, flood] : [apiKilled(1, BETWEEN_DEATHS_MS)];
  it.each(loaded.map(underLoad))('on a machine with a load of 15 also not: $name', async (fault) => {
    await live(fault);
  });
});
