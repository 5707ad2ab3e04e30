// That operations with an Idempotency-Key happen once: replayed, raced, and retried after their answers were lost
// (docs/contract/calls.md). A test file says on which installation, and for which operations.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiConfig } from '../../src/api/start-api.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { countRows, differenceOf } from '../support/all-rows.ts';
import type { ApiAnswer, ApiClient, ApiRequest } from '../support/api-client.ts';
import { createApiClient } from '../support/api-client.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import { callUntilDone } from '../support/call-until-done.ts';
import {
  absentIds,
  type FilledPlace,
  newRequestFor,
  type Operation,
  pathNames,
} from '../support/filled-project.ts';
import { overtake } from '../support/overtaken-call.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

export interface IdempotencySubject {
  api: ApiFixture;
  /** All databases. */
  pools: readonly Pool[];
  /** Where the monitors of the calls are. Default: in the only database. */
  place?: FilledPlace;
  /** Of the database in which the calls work. */
  databaseUrl: string;
  /** The settings of an api that finds that database under another address. */
  configWith(databaseUrl: string): Partial<ApiConfig>;
}

const RACERS = 8;
/** What Postgres reads at the end of the transaction that keeps the answer. */
const COMMIT_OF_ANSWER = ['store-answer', 'commit\0'];

/** Declares the tests of these operations. `open` is called once; `close` of its api ends all of it. */
export function testIdempotency(open: () => Promise<IdempotencySubject>, specs: readonly Operation[]): void {
  let subject: IdempotencySubject;
  let api: ApiFixture;
  let elsewhere: (token: string) => ApiClient;
  let proxy: TcpProxy;
  /** An api whose database answers through the proxy. */
  let unlucky: (token: string) => ApiClient;

  beforeAll(async () => {
    subject = await open();
    api = subject.api;
    const project = api.projectName;
    const replica = await api.startReplica();
    elsewhere = (token) => createApiClient({ url: replica.url, token, project });
    proxy = await TcpProxy.start(subject.databaseUrl);
    const behindProxy = await api.startReplica(subject.configWith(proxy.url));
    unlucky = (token) => createApiClient({ url: behindProxy.url, token, project });
  });
  afterAll(async () => {
    await api?.close();
    await proxy?.close();
  });

  const idempotent = specs.map((spec) => [spec.operationId, spec] as const);

  /** Sessions: they may call every operation, in the project that they name. */
  const tokenFor = ({ preset }: Operation) =>
    preset === 'operator' ? api.tokens.operator : api.tokens.owner;
  const clientFor = (spec: Operation) => (spec.preset === 'operator' ? api.operator : api.owner);

  const newRequest = (spec: Operation) => newRequestFor(api, spec, subject.place);

  /** Of each table of each database. */
  async function countAll(): Promise<Map<string, number>> {
    const counts = await Promise.all(subject.pools.map(countRows));
    return new Map(
      counts.flatMap((of, index) => [...of].map(([table, count]) => [`${index} ${table}`, count] as const)),
    );
  }

  /** How many rows of each table the calls have made. */
  async function rowsMadeBy(calls: () => Promise<unknown>): Promise<Record<string, number>> {
    const before = await countAll();
    await calls();
    return differenceOf(before, await countAll());
  }

  /** One call's effect, which several duplicates must not exceed. */
  async function effectOfOne(spec: Operation): Promise<Record<string, number>> {
    const request = await newRequest(spec);
    const effect = await rowsMadeBy(() => clientFor(spec).expectSuccess(spec.operationId, request));
    const records = Object.entries(effect).filter(([table]) => table.endsWith(' idempotency_records'));
    expect(records.map(([, count]) => count)).toEqual([1]);
    return effect;
  }

  describe('an operation with an Idempotency-Key', () => {
    it.each(idempotent)('%s is replayed without a second effect', async (id, spec) => {
      const request = await newRequest(spec);
      const first = await clientFor(spec).expectSuccess(id, request);
      expect(first.status).toBe(spec.success);
      const repeated = await rowsMadeBy(async () => {
        for (const client of [clientFor(spec), elsewhere(tokenFor(spec))]) {
          expectReplay(spec, await client.expectSuccess(id, request), first);
        }
      });
      expect(repeated).toEqual({});
    });

    it.each(idempotent)('%s refuses a key of another request, and has no effect', async (id, spec) => {
      const request = await newRequest(spec);
      await clientFor(spec).expectSuccess(id, request);
      const body = otherBody(spec, request.body);
      const others: ApiRequest[] = body === undefined ? [] : [{ ...request, body }];
      if (pathNames(spec).length > 0) {
        const ids = request.params as ReturnType<typeof absentIds>;
        others.push({ ...request, params: absentIds(ids) });
      }
      expect(others.length).toBeGreaterThan(0);
      const made = await rowsMadeBy(async () => {
        for (const other of others) {
          const { problem } = await clientFor(spec).call(id, other);
          expect([id, problem?.code]).toEqual([id, 'service.idempotency_conflict']);
        }
      });
      expect(made).toEqual({});
    });

    it.each(idempotent)('%s happens once when duplicates race at two replicas', async (id, spec) => {
      const effect = await effectOfOne(spec);
      const request = await newRequest(spec);
      const clients = Array.from({ length: RACERS }, (_, index) =>
        index % 2 === 0 ? clientFor(spec) : elsewhere(tokenFor(spec)),
      );
      const answers: ApiAnswer<unknown>[] = [];
      const made = await rowsMadeBy(async () => {
        answers.push(...(await callUntilDone(clients, id, request)));
      });
      expect(made).toEqual(effect);
      const [first, ...replays] = answers.toSorted((a, b) => rankOf(a) - rankOf(b));
      if (!first) throw new Error('There is no answer.');
      expect(first.status).toBe(spec.success);
      for (const replay of replays) expectReplay(spec, replay, first);
    });

    it.each(idempotent)('%s answers a duplicate that the first call overtakes', async (id, spec) => {
      const effect = await effectOfOne(spec);
      const request = await newRequest(spec);
      const overtaken = { client: unlucky(tokenFor(spec)), proxy, id, request };
      const made = await rowsMadeBy(async () => {
        let first: ApiAnswer<unknown> | undefined;
        const duplicate = await overtake(overtaken, async () => {
          first = await clientFor(spec).expectSuccess(id, request);
        });
        expect([id, duplicate.problem]).toEqual([id, undefined]);
        if (first) expectReplay(spec, duplicate, first);
      });
      expect(made).toEqual(effect);
    });

    it.each(idempotent)(
      '%s happens once when its answer is lost between commit and caller',
      async (id, spec) => {
        const effect = await effectOfOne(spec);
        const request = await newRequest(spec);
        const made = await rowsMadeBy(async () => {
          proxy.loseAnswerTo(COMMIT_OF_ANSWER);
          const { problem } = await unlucky(tokenFor(spec)).call(id, request);
          expect(proxy.hasLostAnswer).toBe(true);
          // The commit is there and nobody knows: the caller may and must ask again.
          expect(problem).toMatchObject({ status: 503, retryable: true });
          // Another replica has nothing of it but what is in the database.
          const [answer] = await callUntilDone([elsewhere(tokenFor(spec))], id, request);
          expect([id, answer?.problem]).toEqual([id, undefined]);
        });
        expect(made).toEqual(effect);
      },
    );
  });
}

const SECRETS = ['signingSecret', 'secret', 'topicUrl', 'groupTopicUrl', 'replayed'];

/** An answer without what only the first one shows. */
function lasting(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => !SECRETS.includes(name)));
}

/** `first` is the answer to the call that did it. */
function expectReplay(spec: Operation, replay: ApiAnswer<unknown>, first: ApiAnswer<unknown>): void {
  expect(replay.status).toBe(spec.success === 201 ? 200 : spec.success);
  expect(replay.etag).toBe(first.etag);
  const body = replay.body as Record<string, unknown>;
  // A replaced publish address is shown once, as a secret is.
  const shown = { ...(lasting(first.body) as Record<string, unknown>) };
  if (spec.operationId === 'rotatePublishUrl') delete shown.publishUrl;
  expect(lasting(body)).toEqual(shown);
  // The `secret` of an endpoint is a record of facts, and no secret.
  for (const name of ['signingSecret', 'topicUrl', 'groupTopicUrl']) expect(body).not.toHaveProperty(name);
  expect(typeof body.secret).not.toBe('string');
  if ('replayed' in body)
    expect([(first.body as typeof body).replayed, body.replayed]).toEqual([false, true]);
}

/** Another body that the operation takes, where it takes another one. */
function otherBody(spec: Operation, body: unknown): unknown {
  const candidates = Object.entries((body ?? {}) as Record<string, unknown>).flatMap(([name, value]) => {
    const { [name]: _, ...rest } = body as Record<string, unknown>;
    const changed =
      typeof value === 'string' ? `${value}x` : typeof value === 'number' ? value + 1 : undefined;
    return changed === undefined ? [rest] : [{ ...rest, [name]: changed }, rest];
  });
  return candidates.find((candidate) => spec.body?.safeParse(candidate).success);
}

/** The answer to the call that did it comes first. */
function rankOf({ status, body }: ApiAnswer<unknown>): number {
  if (status === 201) return 0;
  return (body as { replayed?: boolean } | undefined)?.replayed ? 2 : 1;
}
