// The table of operations: methods, paths, required headers, statuses and presets (docs/contract/calls.md).
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { refusalsOf } from '../../src/contract/openapi/examples/refusals.ts';
import { type OperationSpec, operationUrl, PRESET_ROLES } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';

const operations: Record<string, OperationSpec> = contractOperations();

// K: Idempotency-Key, E: If-Match; then the success status and the preset.
const EXPECTED = `
GET    /v1/monitors                                       - - 200 read
POST   /v1/monitors                                       K - 201 manage
GET    /v1/monitors/{monitorId}                           - - 200 read
PATCH  /v1/monitors/{monitorId}                           - E 200 manage
DELETE /v1/monitors/{monitorId}                           - E 204 manage
POST   /v1/monitors/{monitorId}/lifecycle                 K E 200 manage
GET    /v1/monitors/{monitorId}/first-beat                - - 200 read
POST   /v1/monitors/{monitorId}/publish-url/rotate        K E 200 manage
POST   /v1/monitors/{monitorId}/test-beat                 - - 200 read
GET    /v1/monitors/{monitorId}/explain                   - - 200 read
GET    /v1/monitors/{monitorId}/observations              - - 200 read
GET    /v1/monitors/{monitorId}/series                    - - 200 read
GET    /v1/monitors/{monitorId}/incidents                 - - 200 read
GET    /v1/monitors/{monitorId}/changes                   - - 200 read
POST   /v1/monitors/{monitorId}/rule-workbench/suggest          - - 200 read
POST   /v1/monitors/{monitorId}/rule-workbench/drafts           K - 201 manage
GET    /v1/monitors/{monitorId}/rule-workbench/drafts           - - 200 read
GET    /v1/monitors/{monitorId}/rule-workbench/drafts/{draftId} - - 200 read
POST   /v1/monitors/{monitorId}/rule-workbench/drafts/update    K - 200 manage
POST   /v1/monitors/{monitorId}/rule-workbench/drafts/replay    - - 200 read
POST   /v1/monitors/{monitorId}/rule-workbench/drafts/apply     K - 200 manage
POST   /v1/monitors/{monitorId}/rule-workbench/drafts/cancel    K - 200 manage
GET    /v1/monitors/{monitorId}/callback                  - - 200 read
PUT    /v1/monitors/{monitorId}/callback                  K E 200 manage
PUT    /v1/monitors/{monitorId}/origin                    - - 200 operator
PUT    /v1/monitors/{monitorId}/beaten-by                 - - 200 operator
DELETE /v1/monitors/{monitorId}/beaten-by                 - - 200 manage
PUT    /v1/operators/{operatorId}/sign                    - - 204 operator
PUT    /v1/operators/{operatorId}/causes                  - - 204 operator
POST   /v1/monitor-origins                                - - 200 operator
GET    /v1/incidents                                      - - 200 read
GET    /v1/incidents/{incidentId}                         - - 200 read
GET    /v1/incidents/{incidentId}/timeline                - - 200 read
GET    /v1/incidents/{incidentId}/deliveries              - - 200 read
POST   /v1/incidents/{incidentId}/acknowledge             K - 200 manage
POST   /v1/incidents/{incidentId}/resolve                 K - 200 manage
POST   /v1/incidents/{incidentId}/note                    K - 200 manage
GET    /v1/deliveries                                     - - 200 read
GET    /v1/deliveries/{deliveryId}                        - - 200 read
POST   /v1/deliveries/{deliveryId}/redeliver              K - 202 manage
GET    /v1/callbacks                                      - - 200 read
GET    /v1/callbacks/{endpointId}                         - - 200 read
GET    /v1/callbacks/{endpointId}/changes                 - - 200 read
POST   /v1/callbacks                                      K - 201 manage
PATCH  /v1/callbacks/{endpointId}                         K E 200 manage
POST   /v1/callbacks/{endpointId}/rotate                  K E 200 manage
POST   /v1/callbacks/{endpointId}/test                    K - 200 manage
DELETE /v1/callbacks/{endpointId}                         - E 204 manage
POST   /v1/relay/connections                              K - 201 session
PUT    /v1/callbacks/default                              K - 200 owner_or_operator
PUT    /v1/callbacks/{endpointId}/origin                  - - 200 operator
POST   /v1/destination-checks                             - - 200 operator
GET    /v1/projects                                       - - 200 read
POST   /v1/projects                                       K - 201 owner_or_operator
GET    /v1/projects/{projectId}                           - - 200 read
PATCH  /v1/projects/{projectId}                           - E 200 owner
GET    /v1/credentials                                    - - 200 owner
POST   /v1/credentials                                    K - 201 owner
GET    /v1/credentials/{credentialId}                     - - 200 owner
DELETE /v1/credentials/{credentialId}                     - E 204 owner
POST   /v1/credentials/{credentialId}/rotate              K E 200 owner
GET    /v1/organization/billing                           - - 200 read
GET    /v1/organization/export                            - - 200 read
GET    /v1/status-feed                                    - - 200 read
GET    /v1/openapi.json                                   - - 200 read
`;

function line(spec: OperationSpec): string {
  const flags = [spec.idempotent ? 'K' : '-', spec.ifMatch ? 'E' : '-'];
  return [spec.method, spec.path, ...flags, spec.success, spec.preset].join(' ');
}

describe('the operations', () => {
  it('the operations have the methods, paths, headers, statuses and presets of the contract', () => {
    const expected = EXPECTED.trim()
      .split('\n')
      .map((row) => row.replaceAll(/\s+/g, ' '));
    expect(Object.values(operations).map(line).sort()).toEqual(expected.sort());
  });

  it.each(Object.entries(operations))('the definition of %s is complete and consistent', (id, spec) => {
    expect(spec.operationId).toBe(id);
    const named = [...spec.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    expect(Object.keys(spec.params?.shape ?? {})).toEqual(named);
    expect(spec.summary).toMatch(/^[A-Z].*[^.]$/);
    expect(spec.response === undefined).toBe(spec.success === 204 || spec.streams !== undefined);
    if (spec.method === 'GET') expect(spec.body).toBeUndefined();
    // A read of what If-Match takes shows the ETag.
    if (spec.ifMatch && spec.success !== 204) expect(spec.etag).toBe(spec.ifMatch);
  });

  it('the table of docs/contract/calls.md has every operation as it is, and no other one', () => {
    const page = readFileSync(new URL('../../docs/contract/calls.md', import.meta.url), 'utf8');
    const rows = page.split('\n').filter((line) => /^\| `\w+` \| [A-Z]+ `\/v1\//.test(line));
    const expected = Object.entries(operations).map(([id, { method, path, success, preset, ...spec }]) => {
      const needs = [spec.idempotent ? 'K' : [], spec.ifMatch ? 'E' : []].flat().join(' ');
      const who = preset.replace('_or_', ', ');
      return `| \`${id}\` | ${method} \`${path}\` | ${needs && `**${needs}** `}| ${success} | ${who} |`;
    });
    expect(rows.toSorted()).toEqual(expected.toSorted());
  });

  it('an operation has the error statuses that follow from its headers, method and path', () => {
    const statuses = (id: string) => [...refusalsOf(operations[id] as OperationSpec).keys()];
    expect(statuses('createCallback')).toEqual([400, 401, 403, 404, 406, 409, 413, 415, 429, 500, 503]);
    expect(statuses('rotateSigningSecret')).toEqual([
      400, 401, 403, 404, 406, 409, 412, 413, 415, 428, 429, 500, 503,
    ]);
    expect(statuses('deleteMonitor')).toContain(415);
    expect(statuses('listMonitorChanges')).toEqual([400, 401, 403, 404, 406, 409, 429, 500, 503]);
  });

  it('a preset admits no role below it', () => {
    expect(PRESET_ROLES.manage).not.toContain('viewer');
    expect(PRESET_ROLES.owner).toEqual(['owner']);
    expect(PRESET_ROLES.owner_or_operator).not.toContain('member');
  });
});

describe('operationUrl', () => {
  it('operationUrl encodes path and query, and leaves out undefined parameters', () => {
    const list = operations.listMonitors as OperationSpec;
    expect(operationUrl(list, { query: { label: ['a=b', 'c=d'], cursor: undefined, limit: 10 } })).toBe(
      '/v1/monitors?label=a%3Db&label=c%3Dd&limit=10',
    );
    const get = operations.getMonitor as OperationSpec;
    expect(operationUrl(get, { params: { monitorId: 'a/../b' } })).toBe('/v1/monitors/a%2F..%2Fb');
  });
});
