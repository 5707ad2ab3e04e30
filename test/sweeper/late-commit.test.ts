// A moment that lay further back than a tick looks when it was committed: a later round looks further, and finds it.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seedMonitors } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  drain,
  type Installation,
  makeSweep,
  moveClock,
  openInstallation,
  readNowMs,
} from './installation.ts';

let installation: Installation;

beforeAll(async () => {
  installation = await openInstallation();
});
afterAll(() => installation?.close());

it('a deadline that becomes visible ten seconds late opens its incident', async () => {
  const { pool, project } = installation;
  await moveClock(pool);
  const sweep = makeSweep(pool);
  await drain(sweep);
  const deadlineMs = (await readNowMs(pool)) - 10_000;
  await seedMonitors(pool, project, 1, {
    live: { anchor_ms: deadlineMs - 120_000, deadline_ms: deadlineMs, wake_ms: deadlineMs },
  });
  const isOpen = async () => {
    await moveClock(pool);
    await drain(sweep);
    return (await pool.query('select from incidents')).rowCount === 1;
  };
  await waitFor(isOpen, { what: 'the incident is open' });
  expect((await pool.query('select state from incidents')).rows).toEqual([{ state: 'open' }]);
});
