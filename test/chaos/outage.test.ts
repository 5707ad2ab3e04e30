// The whole service is down for longer than interval and grace, then up again: it opens no false incident, finds the true
// ones, and records the outage in their timelines.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DevelopmentRun, makeStateFolder } from '../dev/development-run.ts';
import { waitFor } from '../support/wait-for.ts';
import { Ledger } from './ledger.ts';
import { ProductClient } from './product-client.ts';

const OPTIONS = {
  args: ['--no-cluster', '--no-examples'],
  env: { BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1' },
};
/** Also the grace. A sender that does not run for that long looks dead. */
const INTERVAL_SECONDS = 10;
const AWAY_MS = 22_000;

let state: Awaited<ReturnType<typeof makeStateFolder>>;
let run: DevelopmentRun;

beforeAll(async () => {
  state = await makeStateFolder();
});
afterAll(async () => {
  await run?.stop();
  await state?.remove();
});

it('after an outage the service opens one incident for each job that died in it, and none for the others', async () => {
  run = new DevelopmentRun(state.folder, OPTIONS);
  const before = new ProductClient(await run.ready());
  const timing = { intervalSeconds: INTERVAL_SECONDS, graceSeconds: INTERVAL_SECONDS };
  const alive = await before.makeMonitors(30, { name: 'alive', ...timing });
  const dead = await before.makeMonitors(5, { name: 'dead', ...timing });
  await Promise.all([...alive, ...dead].map((monitor) => before.beatSurely(monitor)));
  await run.stop();
  // The test is about this time: there is nothing to wait for.
  await new Promise((resolve) => setTimeout(resolve, AWAY_MS));

  // Senders never stop: their next beat arrives as soon as the api is back at its old address.
  const ledger = new Ledger(before, alive);
  ledger.start(500);
  run = new DevelopmentRun(state.folder, OPTIONS);
  const after = new ProductClient(await run.ready());
  const incidents = () =>
    after.query<{ incident_id: string; monitor_id: string; deadline_at: Date }>('select * from incidents');
  await waitFor(async () => (await incidents()).length >= dead.length, {
    what: 'an incident for each dead monitor',
    timeoutMs: 300_000,
  });
  const beatsBefore = ledger.count;
  await waitFor(() => ledger.count > beatsBefore + alive.length * 10, {
    what: 'more beats',
    timeoutMs: 300_000,
  });
  await ledger.stop();

  const found = await incidents();
  expect(found.map(({ monitor_id }) => monitor_id).sort()).toEqual(
    dead.map(({ monitorId }) => monitorId).sort(),
  );
  // There may be others: seconds in which the machine stopped are an outage too.
  const spans = await after.query<{ ms: number }>(
    'select (to_ms - from_ms)::float8 as ms from service_outages where to_ms - from_ms > $1',
    [AWAY_MS],
  );
  expect(spans).toHaveLength(1);
  const spanMs = spans[0]?.ms;
  for (const { incident_id, monitor_id } of found) {
    const timeline = await after.call<{ items: { type: string; detail?: { from: string; to: string } }[] }>(
      'GET',
      `/v1/incidents/${incident_id}/timeline`,
    );
    const outages = timeline.items.filter(({ type }) => type === 'service_outage');
    const lengths = outages.map(
      ({ detail }) => Date.parse(detail?.to ?? '') - Date.parse(detail?.from ?? ''),
    );
    expect(lengths, monitor_id).toContain(spanMs);
  }
});
