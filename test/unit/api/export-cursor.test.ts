// The cursor of an export: it decodes to what was encoded, within the contract's alphabet and length.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeExportCursor, encodeExportCursor } from '../../../src/api/paging/export-cursor.ts';
import { cursor as contractCursor } from '../../../src/contract/fields/paging.ts';
import { JURISDICTIONS } from '../../../src/domain/monitor.ts';
import { ProblemError } from '../../../src/domain/problem.ts';
import type { ExportPlace } from '../../../src/service/tenancy/export.ts';

const EXTENT = {
  scope: { organizationId: '01890000-0000-7000-8000-000000000000' },
  format: 'ndjson',
  includesBuckets: false,
} as const;

const moment = fc.integer({ min: 0, max: Date.parse('2300-01-01') });
/** Four databases have monitors at most: each jurisdiction's own. */
const homes = fc
  .uniqueArray(fc.constantFrom('default', ...JURISDICTIONS), { minLength: 1, maxLength: 4 })
  .chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc.record({
          name: fc.constant(name),
          span: fc.record({ startedMs: moment, observationsFromMs: moment }),
        }),
      ),
    ),
  );

const home = fc.constantFrom('default', ...JURISDICTIONS);
const projectId = fc.uuid();
const count = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const kind = <Kind extends ExportPlace['kind']>(one: Kind) => fc.constant(one);
const measurement = fc.stringMatching(/^[a-z][a-z0-9_]{0,63}$/);
const id = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/);
const place: fc.Arbitrary<ExportPlace> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('project', 'endpoint', 'monitor', 'observation_bucket', 'usage', 'end'),
  }),
  fc.record({ kind: fc.constantFrom('project', 'endpoint'), projectId }),
  fc.record({ kind: fc.constantFrom('monitor', 'incident', 'observation'), home }),
  fc.record({ kind: fc.constantFrom('monitor', 'observation_bucket'), home, projectId }),
  fc.record({ kind: kind('endpoint'), projectId, key: fc.tuple(count, id) }),
  fc.record({ kind: kind('monitor'), home, projectId, key: fc.tuple(fc.uuid()) }),
  fc.record({ kind: kind('incident'), home, projectId, key: fc.tuple(id) }),
  fc.record({ kind: kind('observation'), home, projectId, key: fc.tuple(fc.uuid(), count) }),
  fc.record({
    ...{ kind: kind('observation_bucket'), home, projectId },
    key: fc.tuple(fc.uuid(), measurement, moment),
  }),
  fc.record({ kind: kind('usage'), key: fc.tuple(fc.constantFrom('2026-01', '2026-12')) }),
);

it('decodes to what was encoded, and fits the contract', () => {
  fc.assert(
    fc.property(homes, place, (monitorHomes, at) => {
      const text = encodeExportCursor({ ...EXTENT, monitorHomes }, at);
      expect(contractCursor.safeParse(text).success).toBe(true);
      const decoded = decodeExportCursor(EXTENT, text);
      expect(decoded?.place).toEqual(at);
      expect([...(decoded?.spans ?? [])]).toEqual(monitorHomes.map(({ name, span }) => [name, span]));
    }),
    { numRuns: 1_000 },
  );
});

it('the longest cursor fits the contract', () => {
  const span = { startedMs: Date.parse('2050-01-01'), observationsFromMs: Date.parse('2049-12-01') };
  const monitorHomes = JURISDICTIONS.map((name) => ({ name, span }));
  const at: ExportPlace = {
    ...{ kind: 'observation_bucket', home: 'unrestricted', projectId: EXTENT.scope.organizationId },
    key: [EXTENT.scope.organizationId, 'm'.repeat(64), span.startedMs],
  };
  const text = encodeExportCursor({ ...EXTENT, monitorHomes }, at);
  expect(contractCursor.safeParse(text).success).toBe(true);
});

it.each(['', 'default', 'default.1', 'default.1.2~', 'default.zzzzzzzzzzz.1', '.1.2', 'default.1.2.3'])(
  'spans %j are refused',
  (spans) => {
    const text = Buffer.from(
      JSON.stringify([`export ndjson false ${EXTENT.scope.organizationId}`, spans, 'end']),
    ).toString('base64url');
    expect(() => decodeExportCursor(EXTENT, text)).toThrow(ProblemError);
  },
);
