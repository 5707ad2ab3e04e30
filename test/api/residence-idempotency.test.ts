// Operations with an Idempotency-Key happen once also in the database of a jurisdiction: those that make or change what is
// there. All others work in the default database (docs/contract/tenancy.md).
import { OPERATIONS, pathNames } from '../support/filled-project.ts';
import { openResidenceFixture } from '../support/residence-fixture.ts';
import { testIdempotency } from './idempotency-suite.ts';

const RESIDENT = ['monitorId', 'incidentId', 'deliveryId'];

testIdempotency(
  async () => {
    const api = await openResidenceFixture();
    const place = { jurisdiction: 'eu' as const, copyDirectory: api.copyDirectory };
    return {
      ...{ api, pools: [api.pool, api.eu], place, databaseUrl: api.proxies.eu.url },
      configWith: (databaseUrl) => ({ places: [{ jurisdiction: 'eu', databaseUrl }] }),
    };
  },
  OPERATIONS.filter(
    (spec) =>
      spec.idempotent &&
      (spec.operationId === 'createMonitor' || pathNames(spec).some((name) => RESIDENT.includes(name))),
  ),
);
