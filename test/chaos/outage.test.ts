// Everything of ours is away for longer than interval and grace, then back: no false incident, the true ones are found,
// and the span is in the timeline.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DevelopmentRun, makeStateFolder } from '../dev/development-run.ts';
import { waitFor } from '../support/wait-for.ts';
import { Ledger } from './ledger.ts';
import { ProductClient } from './product-client.ts';

const OPTIONS = {
  args: ['--no-cluster', '--no-examples'],
  env: { BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1' },
};
/** As grace too: a sender that gets no turn for so long looks as if it were dead. */
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

it('reports what died in the outage, once, and nothing that lives', async () => {
  run = new DevelopmentRun(state.folder, OPTIONS);
  const before = new ProductClient(await run.ready());
  const timing = { intervalSeconds: INTERVAL_SECONDS, graceSeconds: INTERVAL_SECONDS };
  const alive = await before.makeMonitors(30, { name: 'alive', ...timing });
  const dead = await before.makeMonitors(5, { name: 'dead', ...timing });
  for (const monitor of [...alive, ...dead]) await before.beatSurely(monitor);
  await run.stop();
  // The time away is what is tested.
  await new Promise((resolve) => setTimeout(resolve, AWAY_MS));

  // Senders go on all the time: their next beat is there as soon as the api is, which has its address of before.
  const ledger = new Ledger(before, alive);
  ledger.start(500);
  run = new DevelopmentRun(state.folder, OPTIONS);
  const after = new ProductClient(await run.ready());
  const incidents = () =>
    after.query<{ incident_id: string; monitor_id: string; deadline_at: Date }>('select * from incidents');
  await waitFor(async () => (await incidents()).length >= dead.length, {
    what: 'an incident for each dead monitor',
    timeoutMs: 60_000,
  });
  const beatsBefore = ledger.count;
  await waitFor(() => ledger.count > beatsBefore + alive.length * 10, {
    what: 'more beats',
    timeoutMs: 60_000,
  });
  await ledger.stop();

  const found = await incidents();
  expect(found.map(({ monitor_id }) => monitor_id).sort()).toEqual(
    dead.map(({ monitorId }) => monitorId).sort(),
  );
  // Others may stand beside it: seconds in which the machine stood still are an outage too.
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
    const told = timeline.items.filter(({ type }) => type === 'service_outage');
    const lengths = told.map(({ detail }) => Date.parse(detail?.to ?? '') - Date.parse(detail?.from ?? ''));
    expect(lengths, monitor_id).toContain(spanMs);
  }
});
