// Kills every process with SIGKILL at random moments under load, with two processes of each role, and then compares what
// was acknowledged with what is stored. Each role is killed 20 times, with BEATKEEPER_TEST_LENGTH=short 5 times.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DevelopmentRun, makeStateFolder } from '../dev/development-run.ts';
import { waitFor } from '../support/wait-for.ts';
import { type AlertReceiver, startAlertReceiver } from './alert-receiver.ts';
import { Ledger } from './ledger.ts';
import { type Beaten, ProductClient } from './product-client.ts';

const KILLS = process.env.BEATKEEPER_TEST_LENGTH === 'short' ? 5 : 20;
const SILENT = 20;
const STEADY = 10;

let state: Awaited<ReturnType<typeof makeStateFolder>>;
let run: DevelopmentRun;
let receiver: AlertReceiver;
let client: ProductClient;

beforeAll(async () => {
  state = await makeStateFolder();
  receiver = await startAlertReceiver();
  run = new DevelopmentRun(state.folder, {
    args: ['--no-cluster', '--no-examples', '--replicas', '2'],
    env: { BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1' },
  });
  client = new ProductClient(await run.ready());
  receiver.secret = await client.makeDefaultEndpoint('chaos', receiver.url);
});
afterAll(async () => {
  await run?.stop();
  await receiver?.close();
  await state?.remove();
});

it('kills lose no acknowledged beat, and open and send each incident exactly once', async () => {
  const steady = await client.makeMonitors(STEADY, { name: 'steady', intervalSeconds: 60, graceSeconds: 60 });
  const silent = await client.makeMonitors(SILENT, { name: 'silent', intervalSeconds: 2, graceSeconds: 1 });
  const ledger = new Ledger(client, steady);
  ledger.start(50);

  // Each silent monitor gets one beat, one after the other, so that deadlines pass during all kills.
  const silencing = beatInTurn(silent, 30_000 / SILENT);
  for (let kill = 0; kill < KILLS; kill += 1) {
    for (const role of ['api', 'sweeper', 'postgres']) {
      const before = ledger.count;
      await run.killAndAwaitNext(role);
      const beats = 1 + Math.floor(Math.random() * 40);
      await waitFor(() => ledger.count >= before + beats, {
        what: `${beats} more beats`,
        timeoutMs: 300_000,
      });
    }
  }
  await silencing;
  await waitFor(async () => (await openedIncidents()).length >= SILENT, {
    what: 'an incident for each silent monitor',
    timeoutMs: 300_000,
  });
  await waitFor(async () => (await pendingDeliveries()) === 0, {
    what: 'every delivery is delivered',
    timeoutMs: 300_000,
  });
  await ledger.stop();

  expect(ledger.count).toBeGreaterThan(KILLS * 10);
  expect(await ledger.findMissing()).toEqual([]);
  await expectGaplessSequences();
  const incidents = await openedIncidents();
  expect(incidents.map(({ monitor_id }) => monitor_id).sort()).toEqual(
    silent.map(({ monitorId }) => monitorId).sort(),
  );
  expect(receiver.unverified).toBe(0);
  expect(
    receiver
      .distinct()
      .map(({ body: { type, data } }) => `${data.incident.incidentId} ${data.sequence} ${type}`)
      .sort(),
  ).toEqual(incidents.map(({ incident_id }) => `${incident_id} 1 incident.opened`).sort());
  expect(await client.query('select 1 from deliveries')).toHaveLength(SILENT);
  expect(await client.query('select 1 from monitors')).toHaveLength(SILENT + STEADY);
  console.log(
    `${KILLS} kills of each role: ${ledger.count} acknowledged beats, ${ledger.failures} not acknowledged, ${incidents.length} incidents, ${receiver.received.length} deliveries received of ${receiver.distinct().length} messages.`,
  );
});

async function beatInTurn(monitors: readonly Beaten[], pauseMs: number): Promise<void> {
  for (const monitor of monitors) {
    await client.beatSurely(monitor);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

function openedIncidents() {
  return client.query<{ incident_id: string; monitor_id: string }>(
    'select incident_id, monitor_id from incidents',
  );
}

async function pendingDeliveries(): Promise<number> {
  const rows = await client.query("select 1 from deliveries where state in ('pending', 'failing')");
  return rows.length;
}

async function expectGaplessSequences(): Promise<void> {
  const rows = await client.query<{ stored: string; last_sequence: string }>(
    `select count(o.sequence) as stored, l.last_sequence from monitor_live l
     left join observations o using (project_id, monitor_key) group by l.monitor_key, l.last_sequence`,
  );
  for (const row of rows) expect(row.stored).toBe(row.last_sequence);
}
