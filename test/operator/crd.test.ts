// The custom resource definitions on a real API server as kubectl shows them. What each refuses is in the file of its kind.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { crdManifests } from '../../src/contract/crd/crd-manifests.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { CALLBACK_URL, type CrdFixture, GOOD_RULE, openCrdFixture } from './crd-fixture.ts';

describe.skipIf(!hasCluster)('custom resource definitions', () => {
  let fixture: CrdFixture;
  beforeAll(async () => {
    fixture = await openCrdFixture();
  });
  afterAll(() => fixture?.close());

  it('kubectl get knows the short names and the category, and shows the documented columns', async () => {
    const columns = async (args: string[]) =>
      (await fixture.kubectl(['get', ...args])).stdout
        .split('\n')[0]
        ?.trim()
        .split(/\s{2,}/);
    expect((await fixture.apply('Monitor', 'shown', {})).code).toBe(0);
    expect((await fixture.apply('Callback', 'shown', { url: CALLBACK_URL })).code).toBe(0);
    const narrow = ['NAME', 'HEALTH', 'INTERVAL', 'LAST BEAT', 'NEXT DEADLINE', 'INCIDENT', 'READY', 'AGE'];
    expect(await columns(['mon', 'shown'])).toEqual(narrow);
    expect(await columns(['mon', 'shown', '-o', 'wide'])).toEqual([
      ...narrow.slice(0, -1),
      'REASON',
      'AGE',
      'MONITOR ID',
      'LIFECYCLE',
      'CALLBACK',
    ]);
    expect(await columns(['cb', 'shown'])).toEqual([
      'NAME',
      'KIND',
      'LIFECYCLE',
      'DEFAULT',
      'LAST DELIVERY',
      'READY',
      'AGE',
    ]);
    const shown = { selector: {}, measurementKey: 'rows', definition: GOOD_RULE };
    expect((await fixture.apply('Rule', 'shown', shown)).code).toBe(0);
    expect(await columns(['brule', 'shown'])).toEqual([
      'NAME',
      'MEASUREMENT',
      'ROLLOUT',
      'MONITORS',
      'READY',
      'AGE',
    ]);
    const both = (await fixture.kubectl(['get', 'beatkeeper', '-o', 'name'])).stdout;
    expect(both).toContain('monitor.beatkeeper.dev/shown');
    expect(both).toContain('callback.beatkeeper.dev/shown');
    expect(both).toContain('rule.beatkeeper.dev/shown');
  });

  it('kubectl explain describes every field, also the nested ones', async () => {
    const tops = ['monitors', 'monitors.spec', 'monitors.status', 'callbacks.spec'];
    const fields = [
      ...tops,
      'monitors.spec.measurements.ratio',
      'callbacks.status.alias',
      'rules.spec.selector.matchExpressions',
      'rules.spec.definition.ratio',
      'rules.status.replay.monitors',
    ];
    for (const field of fields) {
      // The API server publishes the schema of a definition some time after it serves the objects.
      const words = await waitFor(
        async () => {
          const { code, stdout } = await fixture.kubectl(['explain', field]);
          return code === 0 ? stdout : undefined;
        },
        { what: `kubectl explains ${field}` },
      );
      expect(words).toMatch(/DESCRIPTION:\n +[A-Z]/);
      expect(words).not.toMatch(/<no description>|<empty>/);
    }
  });

  it('the API server accepts definitions with the lowered minimums of a development run', async () => {
    const lowered = stringify(crdManifests({ minimumIntervalSeconds: 1 })['monitors.yaml']);
    const answer = await fixture.kubectl(['apply', '--dry-run=server', '-f', '-'], lowered);
    expect(answer.code).toBe(0);
  });
});
