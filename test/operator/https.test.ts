// The operator and an api that speaks https: it works where the authority is right, and calls nobody else.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RestClient } from '../../src/client/rest-client.ts';
import { hasCluster } from '../kube/cluster.ts';
import {
  AUTHORITY_FILE,
  FOREIGN_AUTHORITY_FILE,
  makeServedFolder,
  type ServedFolder,
} from '../support/served-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an operator of an api that speaks https', () => {
  let fixture: OperatorFixture;
  let folder: ServedFolder;
  let apiUrl: string;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    folder = await makeServedFolder();
    ({ url: apiUrl } = await fixture.apiFixture.startReplica({ tlsFolder: folder.path }));
  });
  afterAll(async () => {
    await fixture?.close();
    await folder?.remove();
  });
  const start = (caFile: string) =>
    fixture.startOperator({ apiUrl, makeClient: (options) => new RestClient({ ...options, caFile }) });

  it('it calls no api that another authority has certified, and says why', async () => {
    const operator = await start(FOREIGN_AUTHORITY_FILE);
    await fixture.createMonitor('wary', disabled);
    const synced = () =>
      waitFor(
        async () =>
          (await fixture.monitor('wary')).status?.conditions?.find(
            ({ type, reason }) => type === 'Synced' && reason === 'ApiUnavailable',
          ),
        { what: 'it says that the API is away' },
      );
    expect((await synced()).message).toContain('unable to verify the first certificate');
    await operator.stop();
  });

  it('it makes monitors and follows the status feed where its own authority has', async () => {
    const operator = await start(AUTHORITY_FILE);
    await fixture.monitorBecomes('wary', 'Ready', 'True');
    await fixture.beat('wary-beat');
    await fixture.monitorBecomes('wary', 'Healthy', 'True', 'Up');
    await operator.stop();
  });
});
