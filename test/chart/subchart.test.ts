// The chart as a part of another one.
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { runProgram } from '../support/run-program.ts';
import { CHART, type Manifest, NAMESPACE, requireHelm } from './helm.ts';

const found = await requireHelm();
const helm = found ?? '';

describe.skipIf(found === undefined)('a chart that includes Beatkeeper with a condition', () => {
  let above = '';

  beforeAll(async () => {
    above = await mkdtemp(join(tmpdir(), 'beatkeeper-chart-'));
    await mkdir(join(above, 'charts'));
    await cp(CHART, join(above, 'charts', 'beatkeeper'), { recursive: true });
    const dependency = { name: 'beatkeeper', version: '*.*.*', condition: 'beatkeeper.enabled' };
    const chart = { apiVersion: 'v2', name: 'platform', version: '1.0.0', dependencies: [dependency] };
    await writeFile(join(above, 'Chart.yaml'), stringify(chart));
  });
  afterAll(() => rm(above, { recursive: true }));

  const renderAbove = async (values: object): Promise<Manifest[]> => {
    const args = ['template', 'prod', above, '--namespace', NAMESPACE, '--include-crds', '--values', '-'];
    const { code, stdout, stderr } = await runProgram(helm, args, { input: stringify(values) });
    expect(stderr).toBe('');
    expect(code).toBe(0);
    return parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
  };

  it('renders it where the condition is true, with global values beside it', async () => {
    const values = { global: { domain: 'example.com' }, beatkeeper: { enabled: true, plan: 'smart' } };
    const names = (await renderAbove(values))
      .filter(({ kind }) => kind === 'Deployment')
      .map(({ metadata }) => metadata.name);
    expect(names.sort()).toEqual(['api', 'operator', 'sweeper'].map((role) => `prod-beatkeeper-${role}`));
  });

  it('renders nothing of it where the condition is false', async () => {
    expect(await renderAbove({ beatkeeper: { enabled: false } })).toEqual([]);
  });
});
