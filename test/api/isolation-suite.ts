// No principal sees or changes anything of another project or organization, by any operation of the contract
// (docs/contract/tenancy.md). The calls follow from the table of operations: a new one is covered the day it is added. A test
// file says on which installation.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exampleOf } from '../../src/contract/openapi/examples/examples.ts';
import { PRESET_ROLES } from '../../src/contract/operations/operation.ts';
import type { Role } from '../../src/domain/access.ts';
import { JURISDICTIONS, type Jurisdiction } from '../../src/domain/monitor.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { rowsOfProject } from '../support/all-rows.ts';
import type { ApiAnswer, ApiClient, ApiRequest } from '../support/api-client.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import {
  absentIds,
  requestOn as exampleOn,
  type FilledProject,
  hasQuery,
  type Operation,
  pathNames,
} from '../support/filled-project.ts';
import { seedCredential } from '../support/seed.ts';

export interface IsolationSubject {
  api: ApiFixture;
  /** All databases. */
  pools: readonly Pool[];
  /** What the strangers must not see. */
  filled: FilledProject;
  /** Where its monitor is. */
  jurisdiction: Jurisdiction;
}

/** These operations, by strangers of each organization: a credential of each preset and a session of each role. */
export interface IsolationScope {
  operations: readonly Operation[];
  presets: readonly ('read' | 'manage')[];
  roles: readonly Role[];
}

interface Stranger {
  name: string;
  role: Role;
  client: ApiClient;
  /** The same, with the other project in `Service-Project`. */
  intruding: ApiClient;
  isSession: boolean;
  /** Of the organization of the project that it must not see. */
  isNeighbor: boolean;
}

/** Names no jurisdiction: the api finds it. */
export function requestOn(filled: FilledProject, spec: Operation): ApiRequest {
  const { query: { jurisdiction: _, ...query } = {}, ...request } = exampleOn(filled, spec);
  return { ...request, query };
}

/** Declares the tests. `open` is called once. */
export function testIsolation(
  open: () => Promise<IsolationSubject>,
  { presets, roles, operations }: IsolationScope,
): void {
  let api: ApiFixture;
  let pools: readonly Pool[];
  let filled: FilledProject;
  let jurisdiction: Jurisdiction;
  let before: unknown;
  let defaultBefore: unknown;
  let strangers: Stranger[];

  beforeAll(async () => {
    ({ api, pools, filled, jurisdiction } = await open());
    const sibling = await api.owner.expectSuccess('createProject', {
      body: { name: `sibling-${randomUUID()}` },
    });
    strangers = [
      ...(await strangersIn('acme', sibling.body.projectId)),
      ...(await strangersIn('umbrella', api.other.projectId)),
    ];
    before = await rowsOfAll();
    defaultBefore = await defaultOf(api.organizationId);
  });
  afterAll(async () => {
    await api?.close();
  });

  /** The rows of the project in each database. */
  const rowsOfAll = async () =>
    await Promise.all(pools.map(async (pool) => await rowsOfProject(pool, api.projectId)));

  /** In this project. */
  async function strangersIn(organization: 'acme' | 'umbrella', projectId: string): Promise<Stranger[]> {
    const isNeighbor = organization === 'acme';
    const credentials = presets.map(async (preset) => {
      const token = await seedCredential(api.pool, { projectId, preset });
      return {
        name: `credential ${preset} of ${organization}`,
        role: preset === 'read' ? ('viewer' as const) : ('member' as const),
        client: api.anonymous.as(token),
        intruding: api.anonymous.as(token, api.projectId),
        isSession: false,
        isNeighbor,
      };
    });
    const sessions = roles.map(async (role) => {
      const claims = { role, org: organization, name: `${role} of ${organization}` };
      const token = await api.issuer.sign({ subject: `stranger-${role}@${organization}`, claims });
      return {
        name: `session ${role} of ${organization}`,
        role,
        client: api.anonymous.as(token, projectId),
        intruding: api.anonymous.as(token, api.projectId),
        isSession: true,
        isNeighbor,
      };
    });
    return await Promise.all([...credentials, ...sessions]);
  }

  const named = (specs: readonly Operation[]) => specs.map((spec) => [spec.operationId, spec] as const);
  // An operator is no thing of a project: each organization has signs of its own (operator-signs.test.ts).
  const withPath = operations.filter((spec) => pathNames(spec).some((name) => name !== 'operatorId'));

  /** Sessions see the projects of their organization, and its operator what it may read without a project. */
  function isStrange({ isSession, isNeighbor, role }: Stranger, spec: Operation): boolean {
    if (!isSession || !isNeighbor) return true;
    return !pathNames(spec).includes('projectId') && !(spec.project === 'optional' && role === 'operator');
  }

  /** Credentials are the owner's as a whole: others learn of none (docs/contract/calls.md). */
  function refusalFor(spec: Operation, role: Role): string {
    const isRefused = !PRESET_ROLES[spec.preset].includes(role);
    return isRefused && pathNames(spec).includes('credentialId')
      ? 'service.permission_denied'
      : 'service.not_found';
  }

  /** Everything that the project alone has. */
  const secretsOf = ({ ids, alias }: FilledProject) => {
    const { projectId: _, ...things } = ids;
    return [...Object.values(things), alias];
  };

  /** No answer has anything of the project that the caller has not sent himself. */
  function expectNoTrace(
    where: readonly string[],
    request: ApiRequest,
    { body, headers }: ApiAnswer<unknown>,
  ) {
    const sent = JSON.stringify(request);
    const shown = JSON.stringify([body, [...headers]]);
    const seen = secretsOf(filled).filter((text) => shown.includes(text) && !sent.includes(text));
    expect([...where, seen]).toEqual([...where, []]);
  }

  async function defaultOf(organizationId: string): Promise<unknown> {
    const text =
      'select default_project_id, default_endpoint_id from organizations where organization_id = $1';
    return (await api.pool.query(text, [organizationId])).rows;
  }

  async function expectUnchanged() {
    expect(await defaultOf(api.organizationId)).toEqual(defaultBefore);
    expect(await rowsOfAll()).toEqual(before);
  }

  describe('what belongs to another project', () => {
    it('the project has one of everything that a path names', async () => {
      expect(Object.entries(filled.ids).filter(([, id]) => id === '')).toEqual([]);
      const rows = (await rowsOfAll()).flatMap((tables) => Object.entries(tables));
      for (const table of ['monitors', 'incidents', 'deliveries', 'callback_endpoints', 'credentials']) {
        const count = rows
          .filter(([name]) => name === table)
          .reduce((sum, [, found]) => sum + found.length, 0);
        expect([table, count > 0]).toEqual([table, true]);
      }
    });

    it.each(named(withPath))('%s answers every stranger as if there were no such thing', async (id, spec) => {
      const request = requestOn(filled, spec);
      const absent = requestOn({ ...filled, ids: absentIds(filled.ids) }, spec);
      for (const stranger of strangers.filter((one) => isStrange(one, spec))) {
        const answer = await stranger.client.call(spec.operationId, request);
        const code = refusalFor(spec, stranger.role);
        expect([id, stranger.name, answer.problem?.code]).toEqual([id, stranger.name, code]);
        expectNoTrace([id, stranger.name], request, answer);
        const { problem } = await stranger.client.call(spec.operationId, absent);
        expect({ ...answer.problem, correlationId: '' }).toEqual({ ...problem, correlationId: '' });
      }
      await expectUnchanged();
    });

    it.each(named(withPath.filter((spec) => hasQuery(spec, 'jurisdiction'))))(
      '%s does not find a monitor in another jurisdiction, whoever calls',
      async (id, spec) => {
        const { query, ...request } = requestOn(filled, spec);
        const { read, manage, viewer, member, owner, operator } = api;
        for (const [name, client] of Object.entries({ read, manage, viewer, member, owner, operator })) {
          for (const other of JURISDICTIONS.filter((one) => one !== jurisdiction)) {
            const elsewhere = { ...request, query: { ...query, jurisdiction: other } };
            const { problem } = await client.call(spec.operationId, elsewhere);
            expect([id, name, problem?.code]).toEqual([id, name, 'service.not_found']);
          }
        }
        await expectUnchanged();
      },
    );

    it.each(named(operations.filter(({ method, path }) => method === 'GET' && !path.includes('{'))))(
      '%s shows a stranger nothing of it, whatever the query names',
      async (id, spec) => {
        const { query } = requestOn(filled, spec);
        for (const stranger of strangers.filter((one) => isStrange(one, spec))) {
          for (const request of [{}, { query }]) {
            const answer = await stranger.client.call(spec.operationId, request);
            const isAllowed = PRESET_ROLES[spec.preset].includes(stranger.role);
            expect([id, stranger.name, answer.status]).toEqual([id, stranger.name, isAllowed ? 200 : 403]);
            expectNoTrace([id, stranger.name], request, answer);
          }
        }
      },
    );

    it.each(named(operations))(
      '%s refuses a stranger who names the project in Service-Project',
      async (id, spec) => {
        const request = requestOn(filled, spec);
        // Sessions of its organization may; a session names none where the operation has none.
        const intruders = strangers.filter(
          ({ isSession, isNeighbor }) => !isSession || (!isNeighbor && spec.project !== 'none'),
        );
        for (const { name, intruding } of intruders) {
          const answer = await intruding.call(spec.operationId, request);
          expect([id, name, answer.problem?.code]).toEqual([id, name, 'service.not_found']);
          expectNoTrace([id, name], request, answer);
        }
        await expectUnchanged();
      },
    );

    // Last: what succeeds makes things of these names in the strangers' own projects.
    const writes = operations.filter(({ method, path }) => method !== 'GET' && !path.includes('{'));
    it.each(named(writes))('%s changes nothing of it, whatever the body names', async (id, spec) => {
      for (const stranger of strangers) {
        const request = requestOn(filled, spec);
        const answer = await stranger.client.call(spec.operationId, request);
        if (!PRESET_ROLES[spec.preset].includes(stranger.role)) expect(answer.status).toBe(403);
        expectNoTrace([id, stranger.name], request, answer);
      }
      await expectUnchanged();
    });

    it('the bodies of these writes name what the project has', () => {
      const namesThing = (spec: Operation) =>
        secretsOf(filled).some((text) => JSON.stringify(requestOn(filled, spec)).includes(text));
      const ids = writes.filter((spec) => exampleOf(spec.operationId).body !== undefined && namesThing(spec));
      expect(ids.map(({ operationId }) => operationId)).toEqual(
        expect.arrayContaining(['createMonitor', 'setDefaultCallback', 'checkDestinations']),
      );
    });
  });
}
