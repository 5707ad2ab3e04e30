// No principal sees or changes anything of another project or organization, by any operation of the contract
// (docs/contract/tenancy.md).
import { openApiFixture } from '../support/api-fixture.ts';
import { CLOSED_URL, fillProject, OPERATIONS } from '../support/filled-project.ts';
import { testIsolation } from './isolation-suite.ts';

testIsolation(
  async () => {
    const api = await openApiFixture({ config: { relayUrl: CLOSED_URL, relayNotifiers: ['ntfy'] } });
    return { api, pools: [api.pool], filled: await fillProject(api), jurisdiction: 'unrestricted' };
  },
  { operations: OPERATIONS, presets: ['read', 'manage'], roles: ['viewer', 'member', 'owner', 'operator'] },
);
