// Parameters of the address: one that cannot be read is refused by its name, never a 500.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import type { Problem } from '../../src/contract/resources/problem.ts';
import { newUuid } from '../../src/domain/id.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

describe('a parameter', () => {
  const UNREADABLE = [
    ['%00', 'invalid_character'],
    ['a%00b', 'invalid_character'],
    ['%ff', 'invalid_encoding'],
    ['%c3%28', 'invalid_encoding'],
    ['%', 'invalid_encoding'],
    ['%ed%a0%80', 'invalid_encoding'],
  ] as const;
  const operations: OperationSpec[] = Object.values(contractOperations());
  /** Path parameters that are not tested are well-formed. */
  const addressOf = ({ path }: OperationSpec, values: Record<string, string> = {}) =>
    path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? newUuid());

  async function call({ method, project, preset }: OperationSpec, path: string): Promise<Problem> {
    const named = project === 'none' ? {} : { 'service-project': 'main' };
    const token = preset === 'operator' ? api.tokens.operator : api.tokens.owner;
    const answer = await fetch(`${api.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'idempotency-key': newUuid(),
        'if-match': '"none-1"',
        ...named,
      },
    });
    return (await answer.json()) as Problem;
  }

  it('a query parameter with NUL or bytes that are not UTF-8 is refused by its name, in every operation', async () => {
    let count = 0;
    for (const spec of operations) {
      for (const name of [...Object.keys(spec.query?.shape ?? {}), 'unknown']) {
        for (const [value, code] of UNREADABLE) {
          const problem = await call(spec, `${addressOf(spec)}?${name}=${value}`);
          const at = [spec.operationId, name, value];
          expect([...at, problem.status, problem.code]).toEqual([...at, 400, 'service.validation_failed']);
          expect([...at, problem.fieldErrors]).toMatchObject([...at, [{ path: name, code }]]);
          count += 1;
        }
      }
    }
    expect(count).toBeGreaterThan(300);
  });

  it('a path parameter with NUL or bytes that are not UTF-8 is refused by its name, in every operation', async () => {
    let count = 0;
    for (const spec of operations) {
      for (const name of Object.keys(spec.params?.shape ?? {})) {
        for (const [value] of UNREADABLE) {
          const problem = await call(spec, addressOf(spec, { [name]: value }));
          const at = [spec.operationId, name, value];
          expect([...at, problem.status, problem.code]).toEqual([...at, 400, 'service.validation_failed']);
          expect([...at, problem.fieldErrors?.map(({ path }) => path)]).toEqual([
            ...at,
            expect.arrayContaining([name]),
          ]);
          count += 1;
        }
      }
    }
    expect(count).toBeGreaterThan(100);
  });

  it('every unreadable parameter is named at once, one whose name is unreadable as it is written', async () => {
    const answer = await fetch(`${api.url}/v1/projects?limit=%ff&cursor=a%00&limit=%00&%ff=1&a%00=%ff`, {
      headers: { authorization: `Bearer ${api.tokens.owner}` },
    });
    const { fieldErrors } = (await answer.json()) as Problem;
    expect(fieldErrors?.map(({ path, code }) => `${path} ${code}`)).toEqual([
      'limit invalid_encoding',
      'cursor invalid_character',
      'limit invalid_character',
      '%ff invalid_encoding',
      'a%00 invalid_character',
    ]);
  });

  it('a "+" in a time that is not escaped is explained, and %2B is read', async () => {
    const list = (since: string) =>
      fetch(`${api.url}/v1/incidents?since=${since}`, {
        headers: { authorization: `Bearer ${api.tokens.read}` },
      });
    const refused = (await (await list('2026-01-01T00:00:00+02:00')).json()) as Problem;
    expect(refused.fieldErrors).toMatchObject([{ path: 'since' }]);
    expect(refused.detail).toContain('%2B');
    expect((await list('2026-01-01T00:00:00%2B02:00')).status).toBe(200);
  });
});
