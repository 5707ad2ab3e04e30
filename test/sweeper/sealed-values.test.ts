// Every value comes to be sealed with the first key, whatever else writes meanwhile; and superseded secrets go.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { newUuid } from '../../src/domain/id.ts';
import {
  openUrl,
  openValidSecrets,
  sealUrl,
  secretPlace,
} from '../../src/service/callbacks/endpoint-seal.ts';
import { removeEndpoint } from '../../src/store/callbacks/callback-endpoints.ts';
import { findRelayTopicBox, relayTopicPlace } from '../../src/store/callbacks/relay-topics.ts';
import { deleteSigningSecrets } from '../../src/store/callbacks/signing-secrets.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import {
  countSealedValues,
  findSealedValues,
  replaceSealedValues,
  SEALED_TABLES,
} from '../../src/store/upkeep/sealed-values.ts';
import { sweepRetention } from '../../src/sweeper/upkeep/sweep-retention.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedEndpoint } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  answerPlace,
  BOTH,
  makeJobDeps,
  NEW,
  OLD,
  sealAgain,
  seedSealedEndpoints,
  urlOf,
} from './sealed-values-fixture.ts';

let fixture: ProjectFixture;

beforeEach(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

const makeDeps = (secrets = BOTH) => makeJobDeps(fixture, secrets);
const sweep = (deps = makeDeps()) => sealAgain(deps);
const seedEndpoints = (count: number) => seedSealedEndpoints(fixture, count);

/** Topics of the relay, all sealed with the old key. */
async function seedTopics(count: number): Promise<string[]> {
  const { pool, project, secrets } = fixture;
  const ids = Array.from({ length: count }, () => newUuid());
  await pool.query(
    `insert into relay_topics (topic_id, organization_id, notifier_id, actor_id, topic_box, created_at, updated_at)
     select v.id, $1, 'ntfy', v.id::text, v.box, now(), now() from unnest($2::uuid[], $3::bytea[]) as v (id, box)`,
    [project.organizationId, ids, ids.map((id) => secrets.seal(topicOf(id), relayTopicPlace(id)))],
  );
  return ids;
}
const topicOf = (topicId: string) => `bk_${topicId}`;

async function countOf(table: string, where: string): Promise<number> {
  const { rows } = await fixture.pool.query<{ count: number }>(
    `select count(*)::integer as count from ${table} where ${where}`,
  );
  return rows[0]?.count ?? -1;
}
const countOld = async () =>
  (await countOf('callback_endpoints', `url_key_id = '${OLD.id}'`)) +
  (await countOf('signing_secrets', `secret_key_id = '${OLD.id}'`)) +
  (await countOf('idempotency_records', `body_key_id = '${OLD.id}'`));

/** Every address, secret and answer opens with the new key alone, and is what it was. */
async function expectAllNew(ids: readonly string[]): Promise<void> {
  const { pool, project } = fixture;
  const only = new SecretBox([NEW]);
  const { rows } = await pool.query<
    Record<'url_box' | 'secret_box' | 'body_box', Buffer> & { endpoint_id: string }
  >(
    `select endpoint_id, url_box, secret_box, body_box
     from callback_endpoints join signing_secrets using (project_id, endpoint_id)
     join idempotency_records on scope_id = project_id and key = endpoint_id`,
  );
  expect(rows.map((row) => row.endpoint_id).sort()).toEqual([...ids].sort());
  for (const { endpoint_id: endpointId, ...boxes } of rows) {
    const ref = { projectId: project.projectId, endpointId };
    expect(openUrl(only, ref, boxes.url_box)).toBe(urlOf(endpointId));
    expect(only.open(boxes.secret_box, secretPlace(ref))).toBe(endpointId);
    expect(only.open(boxes.body_box, answerPlace(ref))).toBe(endpointId);
  }
}

describe('the sweep of sealed values', () => {
  it('a pass seals every address, secret and answer again with the first key, in bounded steps, and a second pass changes nothing', async () => {
    const ids = await seedEndpoints(1_100);
    expect(await sweep()).toBeGreaterThan(4);
    await expectAllNew(ids);
    expect(await countOld()).toBe(0);
    const boxesOf = async () =>
      (await fixture.pool.query('select url_box from callback_endpoints order by endpoint_id')).rows;
    const before = await boxesOf();
    expect(await sweep()).toBe(1);
    expect(await boxesOf()).toEqual(before);
  });

  it('a pass changes nothing else of an endpoint, neither its generation nor its times', async () => {
    await seedEndpoints(1);
    const rest = async () => {
      const { rows } = await fixture.pool.query('select * from callback_endpoints');
      return { ...rows[0], url_box: undefined, url_key_id: undefined };
    };
    const before = await rest();
    await sweep();
    expect(await rest()).toEqual(before);
  });

  it('with one key configured there is nothing to seal again', async () => {
    await seedEndpoints(3);
    expect(await sweep(makeDeps(fixture.secrets))).toBe(1);
    expect(await countOld()).toBe(9);
  });

  it('two passes at once seal every value once more, and leave each with the first key', async () => {
    const ids = await seedEndpoints(3_000);
    await Promise.all([sweep(), sweep(), sweep()]);
    // Each passed over the rows that another held at that moment.
    await sweep();
    await expectAllNew(ids);
  });

  it('an address that was changed or removed between the read and the write of a pass stays so', async () => {
    await seedEndpoints(3);
    const { pool, project, secrets } = fixture;
    const [table] = SEALED_TABLES;
    if (!table) throw new Error('no table');
    const found = await findSealedValues(pool, table, { keyId: OLD.id, limit: 10 });
    const ref = { projectId: project.projectId, endpointId: 'cb_0' };
    await pool.query('update callback_endpoints set url_box = $1 where endpoint_id = $2', [
      sealUrl(secrets, ref, 'https://changed.example'),
      ref.endpointId,
    ]);
    await removeEndpoint(pool, { ...ref, endpointId: 'cb_1' }, Date.now());
    const reseal = (box: Buffer, place: string) => BOTH.seal(BOTH.open(box, place), place);
    const resealed = found.map(({ row, box }) => ({ row, box, newBox: reseal(box, table.placeOf(row)) }));
    expect(await replaceSealedValues(pool, table, resealed)).toBe(1);
    await sweep();
    const { rows } = await pool.query('select url_box from callback_endpoints order by endpoint_id');
    expect(openUrl(new SecretBox([NEW]), ref, rows[0]?.url_box)).toBe('https://changed.example');
    expect(rows[1]?.url_box).toBeNull();
  });

  it('a topic of the relay is sealed with the new key, and opens for its endpoints as before', async () => {
    const ids = await seedTopics(3);
    await sweep();
    for (const topicId of ids) {
      const box = await findRelayTopicBox(fixture.pool, topicId);
      expect(box && new SecretBox([NEW]).open(box, relayTopicPlace(topicId))).toBe(topicOf(topicId));
    }
  });

  /** One of three rows of the table is held while a pass seals the others. */
  async function sealBeside(table: string, keyId: string, held: string): Promise<void> {
    const ids = await seedEndpoints(3);
    const holder = await fixture.pool.connect();
    try {
      await holder.query('begin');
      await holder.query(`select from ${table} where ${held} for update`);
      await sweep();
      expect(await countOf(table, `${keyId} = '${OLD.id}'`)).toBe(1);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    await sweep();
    await expectAllNew(ids);
  }

  it('a pass does not wait for an endpoint that somebody holds; a later pass seals it', async () => {
    await sealBeside('callback_endpoints', 'url_key_id', `endpoint_id = 'cb_1'`);
  });

  it('a pass does not wait for an answer that somebody holds; a later pass seals it', async () => {
    const { projectId } = fixture.project;
    await sealBeside('idempotency_records', 'body_key_id', `scope_id = '${projectId}' and key = 'cb_1'`);
  });

  it('values that do not open are passed over, however many they are, and stay counted', async () => {
    const { pool } = fixture;
    await seedEndpoints(1_500);
    await pool.query(
      `update callback_endpoints set url_box = set_byte(url_box, length(url_box) - 1, 255 - get_byte(url_box, length(url_box) - 1))
       where endpoint_id < 'cb_5'`,
    );
    const broken = await countOf('callback_endpoints', `endpoint_id < 'cb_5'`);
    expect(broken).toBeGreaterThan(500);
    await sweep();
    expect(await countOf('callback_endpoints', `url_key_id = '${OLD.id}'`)).toBe(broken);
    expect(await countOf('callback_endpoints', `url_key_id = '${NEW.id}'`)).toBe(1_500 - broken);
  });

  it('the sweep knows every column of the schema that holds a sealed value', async () => {
    const { rows } = await fixture.pool.query<{ name: string }>(
      `select table_name || '.' || column_name as name from information_schema.columns
       where table_schema = 'public' and data_type = 'bytea' and column_name like '%box'`,
    );
    const known = SEALED_TABLES.map(({ table, box }) => `${table}.${box}`);
    expect(rows.map(({ name }) => name).sort()).toEqual(known.sort());
  });

  it('a pass reads what is to be sealed again by the index, and not the table', async () => {
    const { pool } = fixture;
    await seedEndpoints(3_000);
    await seedTopics(3_000);
    const plans: string[] = [];
    const explaining = {
      query: async (text: string, values: unknown[]) => {
        const { rows } = await pool.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
        plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
        return { rows: [] };
      },
    } as unknown as typeof pool;
    const expectIndexes = async () => {
      for (const table of SEALED_TABLES) {
        for (const keyId of [OLD.id, NEW.id, 'a', 'z']) {
          await findSealedValues(explaining, table, { keyId, limit: 500 });
          expect(plans.pop()).toContain(`${table.table}_key`);
        }
        await countSealedValues(explaining, table, 10_000);
        expect(plans.pop()).not.toContain('Seq Scan');
      }
    };
    await pool.query('analyze');
    await expectIndexes();
    await sweep();
    // The statistics still say that all rows have the old key.
    await expectIndexes();
    await pool.query('analyze');
    await expectIndexes();
  });

  it('what a sweeper leaves that is killed in the middle opens, and the next one completes it', async () => {
    const ids = await seedEndpoints(2_500);
    // Three seconds for each batch, so that the kill comes between two.
    await fixture.pool.query(`
      create function take_time() returns trigger language plpgsql as 'begin perform pg_sleep(3); return null; end';
      create trigger slow after update of url_box on callback_endpoints execute function take_time()`);
    const encode = ({ id, key }: typeof NEW) => `${id}:${key.toString('base64')}`;
    const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
    const sweeper = spawn(process.execPath, [main, 'sweeper'], {
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: fixture.databaseUrl,
        BEATKEEPER_ENCRYPTION_KEYS: `${encode(NEW)},${encode(OLD)}`,
        BEATKEEPER_HEALTH_PORT: String(await findFreePort()),
        BEATKEEPER_LOG_LEVEL: 'warn',
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const ended = once(sweeper, 'exit');
    const countNew = () => countOf('callback_endpoints', `url_key_id = '${NEW.id}'`);
    try {
      await waitFor(async () => (await countNew()) > 0, { what: 'the first batch is sealed again' });
    } finally {
      sweeper.kill('SIGKILL');
      await ended;
    }
    // The server ends the statement of a process that has gone.
    const countRunning = () =>
      countOf(
        'pg_stat_activity',
        `datname = current_database() and application_name like 'beatkeeper-%' and state <> 'idle'`,
      );
    await waitFor(async () => (await countRunning()) === 0, { what: 'its last statement has ended' });
    expect(await countNew()).toBeLessThan(ids.length);
    for (const endpointId of ids.slice(0, 20)) {
      const ref = { projectId: fixture.project.projectId, endpointId };
      expect(await openValidSecrets(fixture.pool, BOTH, ref)).toEqual([endpointId]);
    }
    await fixture.pool.query('drop trigger slow on callback_endpoints');
    await sweep();
    await expectAllNew(ids);
  });
});

describe('a superseded signing secret', () => {
  it('a superseded signing secret is deleted when its overlap has ended, and not before', async () => {
    const { pool, project, secrets } = fixture;
    const endpoint = await seedEndpoint(fixture, 'https://receiver.example');
    const add = (version: number, endsAt: string) =>
      pool.query(
        `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at, ends_at)
         values ($1, $2, $3, $4, now(), ${endsAt})`,
        [
          project.projectId,
          endpoint.endpointId,
          version,
          secrets.seal('old', secretPlace({ ...project, ...endpoint })),
        ],
      );
    await deleteSigningSecrets(pool, { ...project, ...endpoint });
    await add(1, "clock_timestamp() - interval '1 second'");
    await add(2, "clock_timestamp() + interval '15 minutes'");
    await add(3, 'null');
    const deps = makeDeps();
    await sweepRetention(deps);
    const { rows } = await pool.query('select version from signing_secrets order by version');
    expect(rows).toEqual([{ version: 2 }, { version: 3 }]);
    const { values } = await deps.metrics.rowsRetired.get();
    expect(values).toContainEqual(expect.objectContaining({ labels: { what: 'signing_secrets' }, value: 1 }));
  });
});
