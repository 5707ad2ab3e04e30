// The story of a pull request in docs/contract/kubernetes.md, with the kubectl of users: a Rule of its own name is
// replayed, its effect is printed as a table, and it goes again.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { withRows } from './rule-replay-fixture.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGE = `${ROOT}docs/contract/kubernetes.md`;

describe.skipIf(!hasCluster)('a Rule in a pull request', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    await fixture.startOperator();
  });
  afterAll(() => fixture?.close());

  const run = async (args: string[], input?: string): Promise<string> => {
    const { code, stdout, stderr } = await fixture.kubectl(args, input);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: '' });
    return stdout;
  };

  test('shows its effect on last month as a table, by the commands of the page', async () => {
    const spec = { intervalSeconds: 3600, callback: { kind: 'disabled' } };
    for (const name of ['nightly', 'weekly'])
      await fixture.createMonitor(name, spec, { labels: { app: 'backup' } });
    const own = { ...spec, measurements: { rows: { minimum: 1 } } };
    await fixture.createMonitor('own', own, { labels: { app: 'backup' } });
    await withRows(fixture, 'nightly', [5, 20, 5, 20, 5]);
    await withRows(fixture, 'weekly', [20, 5]);
    await withRows(fixture, 'own', [0]);
    const manifest = {
      apiVersion: 'beatkeeper.dev/v1alpha1',
      kind: 'Rule',
      metadata: { name: 'rows-pr-17' },
      spec: {
        selector: { matchLabels: { app: 'backup' } },
        ...{ measurementKey: 'rows', definition: { minimum: 10 }, rollout: 'Replay' },
      },
    };
    const page = await readFile(PAGE, 'utf8');
    const [, block = ''] = /```sh\n(kubectl apply -f rows-pr-17[\s\S]*?)```/.exec(page) ?? [];
    const commands = block.trim().split('\n');
    expect(commands).toHaveLength(4);
    const outputs: string[] = [];
    for (const command of commands) {
      const [, ...args] = command
        .replace('rows-pr-17.yaml', '-')
        .replace('examples/', `${ROOT}examples/`)
        .split(' ');
      outputs.push(await run(args, JSON.stringify(manifest)));
    }
    const table = (outputs[2] ?? '').split('\n');
    expect(table.slice(0, 7)).toEqual([
      '| Monitor                                  | current | proposed | added | removed |',
      '|------------------------------------------|--------:|---------:|------:|--------:|',
      '| nightly                                  |       0 |        3 |     3 |       0 |',
      '| weekly                                   |       0 |        1 |     1 |       0 |',
      '| all                                      |       0 |        4 |     4 |       0 |',
      '',
      expect.stringMatching(/^Replayed 2 of 3 Monitors, from 20\S+Z to 20\S+Z\.$/),
    ]);
    expect(table[7]).toBe(
      'Left out: 1, such as own. The Monitor sets rows itself, which wins over every Rule.',
    );
    expect(outputs[3]).toContain('rows-pr-17');
    expect((await fixture.kubectl(['get', 'brule', 'rows-pr-17'])).code).toBe(1);
  });

  test('that goes on with rollout: Apply opens an incident on the next bad beat, which recovers', async () => {
    const spec = { intervalSeconds: 3600, callback: { kind: 'disabled' } };
    await fixture.createMonitor('loader', spec, { labels: { app: 'loader' } });
    await withRows(fixture, 'loader', [20, 5, 20]);
    const ruleWith = (rollout: string) =>
      JSON.stringify({
        apiVersion: 'beatkeeper.dev/v1alpha1',
        kind: 'Rule',
        metadata: { name: 'rows-loader' },
        spec: {
          selector: { matchLabels: { app: 'loader' } },
          ...{ measurementKey: 'rows', definition: { minimum: 10 }, rollout },
        },
      });
    const wait = (what: string) => run(['wait', `--for=${what}`, 'brule/rows-loader', '--timeout=5m']);
    const beat = async (rows: number) => {
      const { pathname } = new URL((await fixture.secret('loader-beat'))?.url ?? '');
      const answer = await fetch(`${fixture.apiFixture.url}${pathname}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ measurements: { rows } }),
      });
      expect(answer.status).toBe(200);
    };
    await run(['apply', '-f', '-'], ruleWith('Replay'));
    await wait('condition=Ready');
    const total = await run(['get', 'brule', 'rows-loader', '-o', 'jsonpath={.status.replay.total.added}']);
    expect(total).toBe('1');
    await beat(3);
    expect((await fixture.monitor('loader')).status?.openIncidents).toBeUndefined();

    await run(['apply', '-f', '-'], ruleWith('Apply'));
    await wait('jsonpath={.status.monitors.applied}=1');
    const row = await run(['get', 'brule', 'rows-loader', '--no-headers']);
    expect(row.trim().split(/\s+/).slice(0, 5)).toEqual(['rows-loader', 'rows', 'Apply', '1', 'True']);
    await beat(4);
    const unhealthy = await fixture.monitorBecomes('loader', 'Healthy', 'False', 'IncidentOpen');
    expect(unhealthy.status?.openIncidents).toMatchObject([{ kind: 'rule_violation', severity: 'warning' }]);
    await fixture.eventAppears('loader', 'IncidentOpened');
    await beat(40);
    await fixture.monitorBecomes('loader', 'Healthy', 'True');
    await fixture.eventAppears('loader', 'IncidentRecovered');
  });
});
