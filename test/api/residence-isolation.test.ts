// Strangers see and change nothing of what is in the database of a jurisdiction, and who may see it finds it without naming the
// jurisdiction (docs/contract/tenancy.md). Of the strangers those with the most rights: the others have no more in several
// databases than in one.
import { expect, it } from 'vitest';
import type { OperationId, PathParameter } from '../../src/contract/operations/operations.ts';
import {
  CLOSED_URL,
  type FilledProject,
  fillProject,
  OPERATIONS,
  type Operation,
  pathNames,
} from '../support/filled-project.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { requestOn, testIsolation } from './isolation-suite.ts';

const RESIDENT: readonly PathParameter[] = ['monitorId', 'incidentId', 'deliveryId'];
/** Whether it reads, makes or changes what may be in the database of a jurisdiction. All others know the default one alone. */
function isResident(spec: Operation): boolean {
  const names = pathNames(spec);
  if (names.length > 0) return names.some((name) => RESIDENT.includes(name));
  return spec.method === 'GET' || MAKERS.includes(spec.operationId);
}
const MAKERS: readonly OperationId[] = [
  'createMonitor',
  'reportMonitorOrigins',
  'setDefaultCallback',
  'checkDestinations',
];

let api: ResidenceFixture;
let filled: FilledProject;

testIsolation(
  async () => {
    api = await openResidenceFixture({ config: { relayUrl: CLOSED_URL, relayNotifiers: ['ntfy'] } });
    filled = await fillProject(api, { jurisdiction: 'eu', copyDirectory: api.copyDirectory });
    return { api, pools: [api.pool, api.eu], filled, jurisdiction: 'eu' };
  },
  { operations: OPERATIONS.filter(isResident), presets: ['manage'], roles: ['owner'] },
);

const reads = OPERATIONS.filter(
  (spec) => spec.method === 'GET' && isResident(spec) && pathNames(spec).length > 0,
);
it.each(reads.map((spec) => [spec.operationId, spec] as const))(
  '%s finds it without a jurisdiction',
  async (id, spec) => {
    const { status } = await api.manage.call(id, requestOn(filled, spec));
    expect([id, status]).toEqual([id, 200]);
  },
);
