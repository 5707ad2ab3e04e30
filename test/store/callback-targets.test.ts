// The targets of bindings: every reason, the default of another project, thousands of monitors in one query.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { presentTarget } from '../../src/api/present/present-callback.ts';
import { disableEndpoint } from '../../src/service/callbacks/callback-changes.ts';
import { resolveTargets, type Target } from '../../src/service/callbacks/callback-targets.ts';
import { removeCallback } from '../../src/service/callbacks/callbacks.ts';
import { setDefaultCallback } from '../../src/service/callbacks/default-endpoint.ts';
import { openValidSecrets } from '../../src/service/callbacks/endpoint-seal.ts';
import {
  createInlineEndpoint,
  removeInlineEndpoint,
  rotateInlineSecret,
  updateInlineUrl,
} from '../../src/service/callbacks/inline-endpoints.ts';
import type { StoredBinding } from '../../src/store/monitors/monitor-record.ts';
import { seedProject } from '../support/seed.ts';
import { type CallbackFixture, NOW_MS, openCallbackFixture } from './callback-fixture.ts';

let fixture: CallbackFixture;

beforeAll(async () => {
  fixture = await openCallbackFixture();
});
afterAll(async () => {
  await fixture?.close();
});
beforeEach(async () => {
  await fixture.inTx((tx) => setDefaultCallback(tx, fixture.caller, { endpointId: null }));
});

async function resolveOne(binding: StoredBinding, projectId = fixture.project.projectId) {
  const monitorKey = randomUUID();
  return (await resolveTargets(fixture.pool, [{ projectId, monitorKey, binding }])).get(monitorKey);
}

/** As a member of the endpoint's own project sees it. */
function show(target: Target) {
  const context = { secrets: fixture.secrets, publicUrl: '' };
  return presentTarget(target, target, { context, caller: { mayManage: true, isOperator: false } });
}

async function urlOf(binding: StoredBinding) {
  const result = await resolveOne(binding);
  return result && 'target' in result ? show(result.target)?.url : undefined;
}

const remove = (endpointId: string) =>
  fixture.inTx((tx) => removeCallback(tx, { caller: fixture.caller, endpointId, generation: 1 }, NOW_MS));
const disable = (endpointId: string, projectId = fixture.project.projectId) =>
  fixture.inTx((tx) => disableEndpoint(tx, { projectId, endpointId, reason: 'gone' }, NOW_MS));

describe('a named binding', () => {
  it('a named binding resolves to the endpoint that has the alias now', async () => {
    const endpointId = await fixture.makeEndpoint('named');
    const result = await resolveOne({ kind: 'named', alias: 'named' });
    expect(result).toMatchObject({
      target: { endpointId, projectId: fixture.project.projectId, alias: 'named', kind: 'webhook' },
    });
    if (!result || !('target' in result)) throw new Error('no target');
    expect(show(result.target)).toEqual({
      endpointId,
      alias: 'named',
      kind: 'webhook',
      url: 'https://receiver.example/named',
    });
  });

  it('a named binding without a target gives the reason', async () => {
    expect(await resolveOne({ kind: 'named', alias: 'never' })).toEqual({
      unavailableReason: 'alias_not_found',
    });
    await disable(await fixture.makeEndpoint('off'));
    expect(await resolveOne({ kind: 'named', alias: 'off' })).toEqual({
      unavailableReason: 'endpoint_disabled',
    });
    await remove(await fixture.makeEndpoint('left'));
    expect(await resolveOne({ kind: 'named', alias: 'left' })).toEqual({
      unavailableReason: 'endpoint_removed',
    });
    const again = await fixture.makeEndpoint('left');
    expect(await resolveOne({ kind: 'named', alias: 'left' })).toMatchObject({
      target: { endpointId: again },
    });
  });

  it('a named binding does not see the aliases of other projects', async () => {
    await fixture.makeEndpoint('private');
    const other = await seedProject(fixture.pool);
    expect(await resolveOne({ kind: 'named', alias: 'private' }, other.projectId)).toEqual({
      unavailableReason: 'alias_not_found',
    });
  });
});

describe("the organization's default", () => {
  it("the organization's default serves monitors of every project of the organization, and no others", async () => {
    const { pool, project, caller } = fixture;
    const sibling = randomUUID();
    await pool.query(
      "insert into projects (project_id, organization_id, name, name_key) values ($1, $2, 'sibling', 'sibling')",
      [sibling, project.organizationId],
    );
    expect(await resolveOne({ kind: 'organization_default' }, sibling)).toEqual({
      unavailableReason: 'no_organization_default',
    });
    const endpointId = await fixture.makeEndpoint('default');
    await fixture.inTx((tx) => setDefaultCallback(tx, caller, { endpointId }));
    expect(await resolveOne({ kind: 'organization_default' }, sibling)).toMatchObject({
      target: { endpointId, projectId: project.projectId },
    });
    const stranger = await seedProject(pool);
    expect(await resolveOne({ kind: 'organization_default' }, stranger.projectId)).toEqual({
      unavailableReason: 'no_organization_default',
    });
    await remove(endpointId);
    expect(await resolveOne({ kind: 'organization_default' }, sibling)).toEqual({
      unavailableReason: 'endpoint_removed',
    });
  });
});

describe('an inline endpoint', () => {
  it('an inline endpoint serves its monitor, keeps its secret under a new URL, and leaves no address after its removal', async () => {
    const { pool, secrets, project, inTx } = fixture;
    const monitor = { projectId: project.projectId, monitorKey: randomUUID() };
    const { endpointId, secret } = await inTx((tx) =>
      createInlineEndpoint(tx, { secrets }, { ...monitor, url: 'https://one.example/' }, NOW_MS),
    );
    const ref = { projectId: project.projectId, endpointId };
    const binding: StoredBinding = { kind: 'inline', inlineEndpointId: endpointId };
    expect(await resolveOne(binding)).toMatchObject({ target: { endpointId, kind: 'webhook' } });
    expect(secret).toMatchObject({ version: 1, issuedMs: NOW_MS });

    const move = (url: string) => inTx((tx) => updateInlineUrl(tx, { secrets }, { ...ref, url }, NOW_MS));
    expect(await move('https://one.example/')).toBeUndefined();
    expect(await move('https://two.example/')).toBeInstanceOf(Buffer);
    expect(await openValidSecrets(pool, secrets, ref)).toEqual([secret.secret]);
    expect(await urlOf(binding)).toBe('https://two.example/');

    const rotated = await inTx((tx) => rotateInlineSecret(tx, { secrets }, ref, Date.now()));
    expect(rotated).toMatchObject({ version: 2, previous: { version: 1 } });
    expect(await openValidSecrets(pool, secrets, ref)).toEqual([rotated.secret, secret.secret]);

    await disable(endpointId);
    expect(await resolveOne(binding)).toEqual({ unavailableReason: 'endpoint_disabled' });
    expect(await move('https://two.example/')).toBeInstanceOf(Buffer);
    expect(await resolveOne(binding)).toMatchObject({ target: { endpointId, lifecycle: 'active' } });

    const erase = () => inTx((tx) => removeInlineEndpoint(tx, ref, { reason: 'endpoint_removed' }, NOW_MS));
    await erase();
    await erase();
    expect(await resolveOne(binding)).toEqual({ unavailableReason: 'endpoint_removed' });
    const { rows } = await pool.query('select url_box from callback_endpoints where endpoint_id = $1', [
      endpointId,
    ]);
    expect(rows).toEqual([{ url_box: null }]);
    expect(await openValidSecrets(pool, secrets, ref)).toEqual([]);
  });
});

it('thousands of monitors are resolved in one query, and disabled bindings have no result', async () => {
  const { pool, project, caller } = fixture;
  const endpointId = await fixture.makeEndpoint('many');
  await fixture.inTx((tx) => setDefaultCallback(tx, caller, { endpointId }));
  const kinds: StoredBinding[] = [
    { kind: 'organization_default' },
    { kind: 'named', alias: 'many' },
    { kind: 'named', alias: 'none' },
    { kind: 'disabled' },
    { kind: 'inline', inlineEndpointId: 'unknown' },
  ];
  const items = Array.from({ length: 5_000 }, (_, index) => ({
    projectId: project.projectId,
    monitorKey: randomUUID(),
    binding: kinds[index % kinds.length] ?? { kind: 'disabled' },
  }));
  const query = vi.spyOn(pool, 'query');
  const results = await resolveTargets(pool, items);
  expect(query).toHaveBeenCalledTimes(1);
  query.mockRestore();
  expect(results.size).toBe(4_000);
  for (const { monitorKey, binding } of items) {
    const result = results.get(monitorKey);
    if (binding.kind === 'disabled') expect(result).toBeUndefined();
    else if (binding.kind === 'inline') expect(result).toEqual({ unavailableReason: 'endpoint_removed' });
    else if (binding.alias === 'none') expect(result).toEqual({ unavailableReason: 'alias_not_found' });
    else expect(result).toMatchObject({ target: { endpointId } });
  }
});
