// What an operator says of the causes of missed beats: who may say so, what is refused, and what is kept of it
// (docs/contract/incidents.md, "Causes that the operator sees"). What it does to alerts is tested in test/sweeper.
// Holds: setOperatorCauses.
import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

type Causes = Parameters<typeof bodyOf>[0];
const bodyOf = (
  causes: {
    cause: 'node_not_ready' | 'namespace_terminating' | 'image_cannot_be_pulled' | 'quota_exceeded';
    object: string;
    monitors: { projectId: string; monitorId: string }[];
  }[],
) => ({ causes });

const newOperator = () => `beatkeeper/release@${randomUUID()}`;
const put = (operatorId: string, causes: Causes, client: ApiClient = api.operator) =>
  client.call('setOperatorCauses', { params: { operatorId }, body: bodyOf(causes) });
const node = (object: string, monitorIds: string[], projectId = api.projectId) => ({
  cause: 'node_not_ready' as const,
  object,
  monitors: monitorIds.map((monitorId) => ({ projectId, monitorId })),
});

async function create(operatorId: string | undefined, client = api.manage, operator = api.operator) {
  const { monitorId } = (await client.expectSuccess('createMonitor', { body: { name: 'Job' } })).body;
  if (operatorId !== undefined)
    await operator.expectSuccess('setMonitorBeatenBy', { params: { monitorId }, body: { operatorId } });
  return monitorId;
}

/** What is kept of an operator: each monitor with its cause, as `<monitor> <cause> <object>`, with ` ended` behind what has. */
async function kept(operatorId: string, organizationId = api.organizationId): Promise<string[]> {
  const { rows } = await api.pool.query(
    `select m.monitor_id, c.cause, c.object, o.ended_ms, c.ended_ms as cause_ended_ms
     from caused_monitors o join operator_causes c using (cause_id) join monitors m using (project_id, monitor_key)
     where o.operator_id = $1 and o.organization_id = $2`,
    [operatorId, organizationId],
  );
  return rows
    .map(({ monitor_id, cause, object, ended_ms, cause_ended_ms }) =>
      [
        ...[monitor_id, cause, object],
        ...(ended_ms === null ? [] : ['ended']),
        ...(cause_ended_ms === null ? [] : ['over']),
      ].join(' '),
    )
    .toSorted();
}
async function counted() {
  const { rows } = await api.pool.query('select count(*)::integer as count from operator_causes');
  return rows[0].count;
}

describe('the causes of an operator', () => {
  it('are kept as they are said last: what is named no more has ended', async () => {
    const operatorId = newOperator();
    const [one, two, three] = [await create(operatorId), await create(operatorId), await create(operatorId)];
    const answer = await put(operatorId, [node('worker-1', [one, two]), node('worker-2', [three])]);
    expect([answer.status, answer.body]).toEqual([204, undefined]);
    expect(await kept(operatorId)).toEqual(
      [
        `${one} node_not_ready worker-1`,
        `${two} node_not_ready worker-1`,
        `${three} node_not_ready worker-2`,
      ].sort(),
    );
    await put(operatorId, [node('worker-1', [two, three])]);
    expect(await kept(operatorId)).toEqual(
      [
        `${one} node_not_ready worker-1 ended`,
        `${two} node_not_ready worker-1`,
        `${three} node_not_ready worker-1`,
      ].sort(),
    );
    await put(operatorId, []);
    expect(await kept(operatorId)).toEqual(
      [one, two, three].map((id) => `${id} node_not_ready worker-1 ended over`).sort(),
    );
  });

  it('said again change no row, also of two that say so at once; one that comes back is another one', async () => {
    const operatorId = newOperator();
    const monitorId = await create(operatorId);
    const rows = async () =>
      (
        await api.pool.query(
          `select c.cause_id, c.xmin, o.xmin, c.since_ms from operator_causes c
           left join caused_monitors o using (cause_id) where c.operator_id = $1 order by c.since_ms, c.ended_ms`,
          [operatorId],
        )
      ).rows;
    await Promise.all(Array.from({ length: 6 }, () => put(operatorId, [node('worker-1', [monitorId])])));
    const before = await rows();
    expect(before).toHaveLength(1);
    await put(operatorId, [node('worker-1', [monitorId])]);
    expect(await rows()).toEqual(before);
    await put(operatorId, []);
    await put(operatorId, [node('worker-1', [monitorId])]);
    const after = await rows();
    expect(after).toHaveLength(2);
    expect(after[1]?.cause_id).not.toBe(before[0]?.cause_id);
  });

  it('two of the same cause and object are one; the same object of another cause is another one', async () => {
    const operatorId = newOperator();
    const [one, two, three] = [await create(operatorId), await create(operatorId), await create(operatorId)];
    const before = await counted();
    const namespace = { ...node('worker-1', [three]), cause: 'namespace_terminating' as const };
    await put(operatorId, [node('worker-1', [one]), namespace, node('worker-1', [two])]);
    expect(await counted()).toBe(before + 2);
  });

  it('pass over monitors that do not exist, and those that nobody or another operator beats', async () => {
    const operatorId = newOperator();
    const own = await create(operatorId);
    const others = [await create(undefined), await create(newOperator()), 'none'];
    const causes = [node('worker-1', [own, ...others]), node('worker-2', others.slice(0, 0))];
    expect((await put(operatorId, causes)).status).toBe(204);
    expect(await kept(operatorId)).toEqual([`${own} node_not_ready worker-1`]);
    // One without a monitor is none.
    const before = await counted();
    await put(operatorId, [node('worker-1', [own]), node('worker-9', ['none'])]);
    expect(await counted()).toBe(before);
  });

  it('are those of the organization of the caller: monitors of another one are passed over', async () => {
    const operatorId = newOperator();
    const claims = { role: 'operator', org: 'umbrella', name: 'operator of umbrella' };
    const token = await api.issuer.sign({ subject: 'operator@umbrella', claims });
    const foreign = api.anonymous.as(token, api.other.projectId);
    const own = await create(operatorId);
    const theirs = await create(operatorId, api.other.manage, foreign);
    await put(operatorId, [node('worker-1', [own])]);
    await put(operatorId, [node('worker-1', [own]), node('worker-2', [theirs], api.other.projectId)]);
    expect(await kept(operatorId)).toEqual([`${own} node_not_ready worker-1`]);
    expect(await kept(operatorId, api.other.organizationId)).toEqual([]);
    // It says nothing of this organization, whatever it names.
    await put(operatorId, [node('worker-3', [own])], foreign);
    await put(operatorId, [], foreign);
    expect(await kept(operatorId)).toEqual([`${own} node_not_ready worker-1`]);
  });

  it('are said by nobody but the operator', async () => {
    const operatorId = newOperator();
    const monitorId = await create(operatorId);
    const others = [
      api.viewer,
      api.member,
      api.owner,
      api.read,
      api.manage,
      api.other.manage,
      api.other.owner,
    ];
    for (const client of others) {
      const { problem } = await put(operatorId, [node('worker-1', [monitorId])], client);
      expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
    }
    expect(await kept(operatorId)).toEqual([]);
  });
});

describe('causes that are refused', () => {
  const monitor = () => ({ projectId: api.projectId, monitorId: 'job' });
  const cause = () => ({ cause: 'node_not_ready', object: 'worker-1', monitors: [monitor()] });

  it.each<[string, () => unknown, string, string]>([
    ['no list', () => ({}), 'causes', 'required'],
    [
      'a cause of no such name',
      () => ({ causes: [{ ...cause(), cause: 'bad_luck' }] }),
      'causes.0.cause',
      'invalid_choice',
    ],
    ['no object', () => ({ causes: [{ ...cause(), object: undefined }] }), 'causes.0.object', 'required'],
    ['an empty object', () => ({ causes: [{ ...cause(), object: ' ' }] }), 'causes.0.object', 'too_short'],
    [
      'a long object',
      () => ({ causes: [{ ...cause(), object: 'a'.repeat(513) }] }),
      'causes.0.object',
      'too_long',
    ],
    [
      'no monitors',
      () => ({ causes: [{ ...cause(), monitors: undefined }] }),
      'causes.0.monitors',
      'required',
    ],
    [
      'a project by name',
      () => ({ causes: [{ ...cause(), monitors: [{ ...monitor(), projectId: 'Payments' }] }] }),
      'causes.0.monitors.0.projectId',
      'invalid_format',
    ],
    [
      'a monitor twice, in two causes',
      () => ({ causes: [cause(), { ...cause(), object: 'worker-2' }] }),
      'causes.1.monitors.0',
      'not_unique',
    ],
    [
      'more than 10,000 monitors together',
      () => ({
        causes: Array.from({ length: 2 }, (_, index) => ({
          ...cause(),
          monitors: Array.from({ length: 5_001 }, (__, place) => ({
            ...monitor(),
            monitorId: `job-${index}-${place}`,
          })),
        })),
      }),
      'causes.1.monitors.4999',
      'too_big',
    ],
    ['a field that there is not', () => ({ causes: [], since: 1 }), 'since', 'unknown_field'],
  ])('%s is refused with its path', async (_what, body, path, code) => {
    const request = { params: { operatorId: newOperator() }, body: body() as ReturnType<typeof bodyOf> };
    const { problem } = await api.operator.call('setOperatorCauses', request);
    expect(problem).toMatchObject({
      ...{ status: 400, code: 'service.validation_failed' },
      fieldErrors: [{ path, code }],
    });
  });

  it('an operator of a name that none can have is refused with its path', async () => {
    const { problem } = await put('no good', []);
    expect(problem?.fieldErrors).toMatchObject([{ path: 'operatorId', code: 'invalid_format' }]);
    expect((await put('no good', [], api.owner)).status).toBe(404);
  });
});

describe('the size of the body', () => {
  const send = (rawBody: string | Buffer, headers: Record<string, string> = {}) =>
    api.operator.call('setOperatorCauses', {
      params: { operatorId: newOperator() },
      rawBody,
      headers: { 'content-type': 'application/json', ...headers },
    });
  /** The largest within the bounds. */
  const largest = () =>
    JSON.stringify({
      causes: Array.from({ length: 1_000 }, (_, index) => ({
        cause: 'image_cannot_be_pulled',
        object: `${index}${'\u{1f600}'.repeat(512 - String(index).length)}`,
        monitors: Array.from({ length: 10 }, (__, place) => ({
          projectId: randomUUID(),
          monitorId: `m-${index}-${place}`.padEnd(128, 'x'),
        })),
      })),
    });

  it('the largest body within the bounds is taken, plain and in gzip', async () => {
    const body = largest();
    expect(Buffer.byteLength(body)).toBeGreaterThan(4_000_000);
    expect((await send(body)).status).toBe(204);
    expect((await send(gzipSync(body), { 'content-encoding': 'gzip' })).status).toBe(204);
  });

  it('a body of more than 4 MiB is refused with its limit, before and after decompression', async () => {
    const body = JSON.stringify({ causes: [], more: 'x'.repeat(4 * 1_048_576) });
    for (const answer of [
      await send(body),
      await send(gzipSync(body), { 'content-encoding': 'gzip' }),
      await send('x'.repeat(5 * 1_048_576)),
    ]) {
      expect(answer.problem).toMatchObject({
        status: 413,
        code: 'service.payload_too_large',
        detail: expect.stringContaining('at most 4 MiB'),
      });
    }
  });
});
