// Every operation with an Idempotency-Key happens once (docs/contract/calls.md). The calls follow from the table of
// operations.
import { openApiFixture } from '../support/api-fixture.ts';
import { CLOSED_URL, OPERATIONS } from '../support/filled-project.ts';
import { testIdempotency } from './idempotency-suite.ts';

testIdempotency(
  async () => {
    const api = await openApiFixture({ config: { relayUrl: CLOSED_URL, relayNotifiers: ['ntfy'] } });
    return {
      ...{ api, pools: [api.pool], databaseUrl: api.databaseUrl },
      configWith: (databaseUrl) => ({ databaseUrl }),
    };
  },
  OPERATIONS.filter(({ idempotent }) => idempotent),
);
