// The limit of requests a minute: over all replicas, without the database, and as callers see it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RateLimiter } from '../../src/api/http/rate-limit.ts';
import { newUuid } from '../../src/domain/id.ts';
import { findPlan } from '../../src/domain/plan.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import type { Organization } from '../../src/store/tenancy/organizations.ts';
import { insertProject } from '../../src/store/tenancy/projects.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { seedCredential } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

const log = createLog({ role: 'test', level: 'silent' });
const organization = (plan: string): Organization => ({
  organizationId: newUuid(),
  name: 'x',
  plan,
  serviceState: 'active',
});

function isAllowed(limiter: RateLimiter, scopeId: string, plan: string): boolean {
  const { problem } = limiter.spend(scopeId, organization(plan));
  if (problem) expect(problem.code).toBe('rate_limited');
  return problem === undefined;
}

describe('the limit over replicas', () => {
  let database: DatabaseFixture;
  beforeAll(async () => {
    database = await openDatabaseFixture();
  });
  afterAll(() => database?.close());

  it.each(['free', 'builder', 'scale'])(
    'four replicas keep the limit of the plan %s within a tenth',
    async (plan) => {
      const limit = { free: 60, builder: 300, scale: 12_000 }[plan] ?? 0;
      // What one replica serves between two settlements: it begins one when it has spent 2 % of the limit.
      const burst = Math.max(1, Math.floor(limit * 0.02));
      const allowed = await withinOneMinute(async () => {
        const replicas = Array.from(
          { length: 4 },
          () => new RateLimiter({ pool: database.pool, log, findPlan }),
        );
        const scopeId = newUuid();
        let count = 0;
        for (let spent = 0; spent < limit; spent += burst) {
          for (const replica of replicas) {
            for (let call = 0; call < burst; call += 1) if (isAllowed(replica, scopeId, plan)) count += 1;
          }
          await Promise.all(replicas.map((replica) => replica.settle()));
        }
        return count;
      });
      expect(allowed).toBeGreaterThanOrEqual(limit);
      expect(allowed).toBeLessThanOrEqual(limit * 1.1);
    },
  );

  it("the limit starts again each minute of the database's clock", async () => {
    let nowMs = 1_700_000_040_000; // ours is years behind
    const limiter = new RateLimiter({ pool: database.pool, log, findPlan, now: () => nowMs });
    const scopeId = newUuid();
    for (let call = 0; call < 60; call += 1) expect(isAllowed(limiter, scopeId, 'free')).toBe(true);
    expect(isAllowed(limiter, scopeId, 'free')).toBe(false);
    nowMs += 60_000;
    expect(isAllowed(limiter, scopeId, 'free')).toBe(true);
  });

  it('no call is lost at the turn of a minute, also of a settlement that fails meanwhile', async () => {
    let nowMs = 1_700_000_040_000;
    let isAway = false;
    const pool = {
      query: async (query: never) => {
        if (isAway) throw new Error('The database is away.');
        return await database.pool.query(query);
      },
    } as unknown as Pool;
    const limiter = new RateLimiter({ pool, log, findPlan, now: () => nowMs });
    const scopeId = newUuid();
    const spend = () => expect(isAllowed(limiter, scopeId, 'free')).toBe(true);
    const counted = async () => {
      const { rows } = await database.pool.query(
        'select used from rate_windows where project_id = $1 order by window_start',
        [scopeId],
      );
      return rows.map(({ used }) => used);
    };
    spend();
    nowMs += 60_000;
    spend();
    isAway = true;
    const failing = limiter.settle();
    nowMs += 60_000;
    spend();
    await failing;
    expect(await counted()).toEqual([]);
    isAway = false;
    await limiter.settle();
    expect(await counted()).toEqual([1, 1, 1]);
    await limiter.settle();
    expect(await counted()).toEqual([1, 1, 1]);
  });

  it('each replica counts alone while the database is away', async () => {
    const away = openPool({ databaseUrl: 'postgres://x@127.0.0.1:1/x', size: 1, applicationName: 'test' });
    const limiter = new RateLimiter({ pool: away, log, findPlan, now: () => 1_700_000_040_000 });
    const scopeId = newUuid();
    let allowed = 0;
    for (let call = 0; call < 100; call += 1) {
      if (isAllowed(limiter, scopeId, 'free')) allowed += 1;
      if (call % 10 === 0) await limiter.settle();
    }
    expect(allowed).toBe(60);
    await away.end();
  });
});

/** Runs it again when a minute has ended meanwhile: two limits have counted then. */
async function withinOneMinute<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    const minute = new Date().getMinutes();
    const result = await work();
    if (new Date().getMinutes() === minute) return result;
  }
}

describe('the limit as callers see it', () => {
  let api: ApiFixture;
  beforeAll(async () => {
    api = await openApiFixture({ plan: 'free' });
  });
  afterAll(async () => {
    await api?.close();
  });

  it('a 429 names the limit and when to try again, and other projects are served', async () => {
    const { answers, next } = await withinOneMinute(async () => ({
      answers: await Promise.all(Array.from({ length: 70 }, () => api.read.call('listProjects'))),
      next: await api.manage.call('listProjects'),
    }));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(10);
    for (const { problem, headers } of refused) {
      expect(problem).toMatchObject({
        code: 'service.rate_limited',
        retryable: true,
        limit: {
          dimension: 'api_requests_per_minute',
          limit: 60,
          current: 60,
          attempted: 61,
          plan: { id: 'free' },
          remediation: 'reduce_usage',
        },
        remediation: [{ code: 'slow_down', documentation: '/docs/limits#plans' }],
      });
      expect(problem?.retryAfterSeconds).toBeLessThanOrEqual(60);
      expect(headers.get('retry-after')).toBe(String(problem?.retryAfterSeconds));
      const left = `r=0;t=${problem?.retryAfterSeconds}`;
      expect(headers.get('ratelimit')).toBe(`"api_requests_per_minute";${left}`);
    }
    expect(next.status).toBe(429);
    expect((await api.other.manage.call('listProjects')).status).toBe(200);
    // Calls without a credential count for no project.
    expect((await api.anonymous.call('listProjects')).status).toBe(401);
    for (const path of ['/docs', '/docs/openapi.json']) {
      expect((await fetch(`${api.url}${path}`)).status).toBe(200);
    }
  });

  it('answers say how many calls are left of the minute, refusals too', async () => {
    const project = { projectId: newUuid(), organizationId: api.organizationId, name: 'counted' };
    await insertProject(api.pool, project);
    const reader = api.read.as(await seedCredential(api.pool, { ...project, preset: 'read' }));
    const answers = await withinOneMinute(async () => [
      await reader.call('listMonitors'),
      await reader.call('listCredentials'),
      await reader.call('getMonitor', { params: { monitorId: 'nobody' } }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 403, 404]);
    const states = answers.map(({ headers }) => {
      expect(headers.get('ratelimit-policy')).toBe('"api_requests_per_minute";q=60;w=60');
      const [, left, seconds] =
        /^"api_requests_per_minute";r=(\d+);t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? [];
      expect(Number(seconds)).toBeGreaterThan(0);
      expect(Number(seconds)).toBeLessThanOrEqual(60);
      return Number(left);
    });
    const [first = 0] = states;
    expect(states).toEqual([first, first - 1, first - 2]);
    expect((await api.anonymous.call('listMonitors')).headers.get('ratelimit')).toBeNull();
    expect((await api.operator.call('listMonitors')).headers.get('ratelimit')).toBeNull();
  });

  it('what one api has served counts in another one', async () => {
    const project = { projectId: newUuid(), organizationId: api.organizationId, name: 'shared' };
    await insertProject(api.pool, project);
    const token = await seedCredential(api.pool, { ...project, preset: 'read' });
    const first = api.read.as(token);
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token });
    const served = await withinOneMinute(async () => {
      await Promise.all(Array.from({ length: 50 }, () => first.call('listMonitors')));
      let count = 0;
      // It learns of the others when it settles its own, and would have all 60 by itself.
      const isRefused = async () => {
        const { status } = await second.call('listMonitors');
        if (status === 200) count += 1;
        return status === 429;
      };
      await waitFor(isRefused, { what: 'the other api refuses', intervalMs: 300 });
      return count;
    });
    expect(served).toBeLessThan(50);
  });

  it("the operator's calls do not count, and are served when a project has spent all of its own", async () => {
    const project = { projectId: newUuid(), organizationId: api.organizationId, name: 'of the operator' };
    await insertProject(api.pool, project);
    const operator = api.operator.as(api.tokens.operator, project.projectId);
    const reader = api.read.as(await seedCredential(api.pool, { ...project, preset: 'read' }));
    const call = (client: ApiClient) => client.call('listMonitors');
    const { served, own, refused, last } = await withinOneMinute(async () => ({
      served: await Promise.all(Array.from({ length: 70 }, () => call(operator))),
      own: await call(reader),
      refused: await Promise.all(Array.from({ length: 70 }, () => call(reader))),
      last: await call(operator),
    }));
    expect(new Set(served.map(({ status }) => status))).toEqual(new Set([200]));
    expect(own.status).toBe(200);
    expect(refused.at(-1)?.status).toBe(429);
    expect(last.status).toBe(200);
  });
});
