// An encryption key is retired while endpoints are made, changed and alerted: nothing is lost, and every message is signed
// with a secret of its endpoint (docs/operations.md, Encryption keys).
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RunningApi, startApi } from '../../src/api/start-api.ts';
import type { EncryptionKey } from '../../src/store/postgres/secret-box.ts';
import { SEALED_TABLES } from '../../src/store/upkeep/sealed-values.ts';
import { startSweeper } from '../../src/sweeper/start-sweeper.ts';
import type { Running } from '../../src/telemetry/run-until-signal.ts';
import { createTelemetry, type Telemetry } from '../../src/telemetry/telemetry.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { makeConfig } from '../support/make-config.ts';
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';
import { seedCredential } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

const OLD = { id: 'k1', key: Buffer.alloc(32, 1) };
const NEW = { id: 'k2', key: Buffer.alloc(32, 2) };

let fixture: ProjectFixture;
let receiver: Receiver;

beforeAll(async () => {
  fixture = await openProjectFixture();
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver?.close();
  await fixture?.close();
});

interface Installation {
  client: ApiClient;
  api: RunningApi;
  sweeper: Running;
  /** Of the sweeper. */
  telemetry: Telemetry;
}

let token = '';

/** One api and one sweeper with these keys. */
async function start(encryptionKeys: EncryptionKey[]): Promise<Installation> {
  const config = makeConfig(fixture.databaseUrl, { encryptionKeys, connectTimeoutMs: 60_000 });
  const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
  const api = await startApi(config, createTelemetry({ role: 'api', logLevel: 'silent' }));
  const client = createApiClient({ url: `http://127.0.0.1:${api.port}`, token });
  return { client, api, sweeper: await startSweeper(config, telemetry), telemetry };
}

async function end({ api, sweeper }: Installation): Promise<void> {
  await Promise.all([api.close(), sweeper.close()]);
}

/** What users do all the time, at whichever installation is the current one. */
class Load {
  current: Installation;
  /** Calls under way at each installation. */
  readonly calls = new Map<Installation, number>();
  /** The secrets of each endpoint, by the first part of the path of its URL. */
  readonly secrets = new Map<string, string[]>();
  /** Endpoints that monitors name, with their URLs. */
  readonly endpoints: { endpointId: string; alias: string; url: string }[] = [];
  /** Messages that must arrive. */
  expected = 0;
  rounds = 0;
  #isStopped = false;
  readonly #workers: Promise<void>[];

  constructor(current: Installation) {
    this.current = current;
    this.#workers = ['a', 'b'].map((name) => this.#work(name));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#workers);
  }

  /** Resolves when so many rounds more have begun and ended. */
  async more(rounds: number): Promise<void> {
    const until = this.rounds + rounds;
    const failed = Promise.all(this.#workers);
    await Promise.race([waitFor(() => this.rounds >= until, { what: `${rounds} rounds` }), failed]);
  }

  async #work(name: string): Promise<void> {
    for (let round = 1; !this.#isStopped; round += 1) {
      await this.#round(`${name}${round}`);
      this.rounds += 1;
      // The plan allows 200 calls a second.
      await delay(100);
    }
  }

  async #round(name: string): Promise<void> {
    const url = `${receiver.url}/${name}`;
    const made = await this.#call('createCallback', { body: { alias: name, url } });
    const params = { endpointId: made.body.endpoint.id };
    this.secrets.set(name, [made.body.signingSecret?.secret ?? '']);
    const endpoint = { ...params, alias: name, url };
    this.endpoints.push(endpoint);
    await this.#alert(name);
    const { etag } = await this.#rotate(endpoint, made.etag);
    endpoint.url = `${url}/moved`;
    await this.#call('updateCallback', { params, ifMatch: etag, body: { url: endpoint.url } });
    await this.#alert(name);
    const inline = await this.#call('createMonitor', {
      body: { name: randomUUID(), callback: { kind: 'inline', url: `${receiver.url}/inline-${name}` } },
    });
    this.secrets.set(`inline-${name}`, [inline.body.signingSecret?.secret ?? '']);
    await this.#fail(inline.body.publishUrl ?? '');
    const test = await this.#call('testCallback', { params });
    expect(test.body.delivered).toBe(true);
    this.expected += 1;
    // One that was sealed at any time before.
    const earlier = this.endpoints[Math.floor(Math.random() * this.endpoints.length)];
    await this.#alert(earlier?.alias ?? name);
  }

  async #rotate({ endpointId, alias }: { endpointId: string; alias: string }, ifMatch: string) {
    const rotated = await this.#call('rotateSigningSecret', { params: { endpointId }, ifMatch, body: {} });
    this.secrets.get(alias)?.push(rotated.body.signingSecret?.secret ?? '');
    return rotated;
  }

  async #alert(alias: string): Promise<void> {
    const body = { name: randomUUID(), callback: { kind: 'named', alias } };
    const { body: monitor } = await this.#call('createMonitor', { body });
    await this.#fail(monitor.publishUrl ?? '');
  }

  async #fail(publishUrl: string): Promise<void> {
    const { pathname } = new URL(publishUrl);
    const { status } = await this.#at(({ client }) =>
      fetch(`${client.url}${pathname}/fail`, { method: 'POST' }),
    );
    expect(status).toBe(200);
    this.expected += 1;
  }

  #call: ApiClient['expectSuccess'] = (id, request) =>
    this.#at(({ client }) => client.expectSuccess(id, request));

  async #at<T>(call: (installation: Installation) => Promise<T>): Promise<T> {
    const { current, calls } = this;
    calls.set(current, (calls.get(current) ?? 0) + 1);
    try {
      return await call(current);
    } finally {
      calls.set(current, (calls.get(current) ?? 0) - 1);
    }
  }
}

async function sealedValues({ telemetry }: Installation) {
  const metric = telemetry.registry.getSingleMetric('beatkeeper_sealed_values');
  const values = (await metric?.get())?.values ?? [];
  return values.map(({ labels, value }) => ({ ...labels, value }) as { key_id: string; value: number });
}

it('a key is retired under load: everything comes to the new one, and no message is lost or wrongly signed', async () => {
  const { pool, project } = fixture;
  token = await seedCredential(pool, { projectId: project.projectId, preset: 'manage' });
  const load = new Load(await start([OLD]));
  const rollOut = async (...keys: EncryptionKey[]) => {
    const before = load.current;
    load.current = await start(keys);
    // As a balancer does: an api ends when nothing is sent to it any more.
    await waitFor(() => !load.calls.get(before), { what: 'no call is under way at the installation before' });
    await end(before);
  };
  try {
    const kept = { body: { alias: 'kept', url: `${receiver.url}/kept` }, idempotencyKey: randomUUID() };
    const first = await load.current.client.expectSuccess('createCallback', kept);
    await load.more(8);
    await rollOut(OLD, NEW);
    await load.more(8);
    // The sweep is due at once, and not 20 s after the last one.
    await pool.query(`update sweeper_leases set last_done_at = null where name = 'sealed_values'`);
    await rollOut(NEW, OLD);
    const isRetired = async () => {
      const ofOld = (await sealedValues(load.current)).filter(({ key_id: id }) => id === OLD.id);
      return ofOld.length === SEALED_TABLES.length && ofOld.every(({ value }) => value === 0);
    };
    await waitFor(isRetired, { what: 'nothing is sealed with the old key', timeoutMs: 180_000 });
    await rollOut(NEW);
    await load.more(8);
    await load.stop();

    const { rows: left } = await pool.query(
      `select url_key_id as id from callback_endpoints union select secret_key_id from signing_secrets
       union select body_key_id from idempotency_records where body_box is not null`,
    );
    expect(left).toEqual([{ id: NEW.id }]);
    const { client } = load.current;
    const again = await client.expectSuccess('createCallback', kept);
    expect(again.body.endpoint).toEqual(first.body.endpoint);
    for (const { endpointId, url } of load.endpoints) {
      const { body } = await client.expectSuccess('getCallback', { params: { endpointId } });
      expect(body.url).toBe(url);
    }

    const waiting = async () => {
      const { rows } = await pool.query("select from deliveries where state in ('pending', 'failing')");
      return rows.length;
    };
    await waitFor(async () => (await waiting()) === 0, { what: 'every delivery has ended' });
    const { rows: deliveries } = await pool.query<{ webhook_id: string; state: string }>(
      'select webhook_id, state from deliveries',
    );
    expect(deliveries).toHaveLength(load.expected);
    expect(deliveries.filter(({ state }) => state !== 'delivered')).toEqual([]);
    const heard = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']));
    expect(deliveries.filter(({ webhook_id: id }) => !heard.has(id))).toEqual([]);
    for (const request of receiver.requests) {
      const name = request.path.split('/')[2] ?? '';
      const secrets = load.secrets.get(name) ?? [];
      const isSigned = secrets.some((secret) => {
        try {
          return verifyWebhook(request, secret) !== undefined;
        } catch {
          return false;
        }
      });
      expect(isSigned, `${request.path} is signed with a secret of its endpoint`).toBe(true);
    }
  } finally {
    await load.stop().catch(() => undefined);
    await end(load.current);
  }
});
