// The files of the chart beside its templates: they agree with the package and the image, and their scripts can be parsed.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../support/run-program.ts';
import { CHART } from './helm.ts';

describe('the files beside the templates', () => {
  const read = (name: string) => readFileSync(join(CHART, '..', '..', name), 'utf8');

  it('the chart has the version of the package', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    const chart = read('charts/beatkeeper/Chart.yaml');
    expect(chart).toContain(`\nversion: ${version}\n`);
    expect(chart).toContain(`\nappVersion: "${version}"\n`);
  });

  it('the chart has the same definitions as the image, and permissions for exactly those', () => {
    const names = readdirSync(join(CHART, 'crds'));
    for (const name of names) expect(read(`charts/beatkeeper/crds/${name}`)).toBe(read(`crds/${name}`));
    const inTemplates = /define "beatkeeper\.resources" -}}\n(.*)\n/.exec(
      read('charts/beatkeeper/templates/_names.tpl'),
    );
    const resources = JSON.parse(inTemplates?.[1] ?? '[]') as string[];
    expect(new Set(resources.map((resource) => `${resource}.yaml`))).toEqual(new Set(names));
  });

  it('tools that delete what they installed keep the definitions, and so all Monitors and Callbacks', () => {
    for (const name of readdirSync(join(CHART, 'crds'))) {
      expect(parse(read(`charts/beatkeeper/crds/${name}`)), name).toMatchObject({
        metadata: {
          annotations: {
            'argocd.argoproj.io/sync-options': 'Delete=false,Prune=false',
            'helm.sh/resource-policy': 'keep',
          },
        },
      });
    }
  });

  it('bash can parse the script that makes the roles of the bundled database', async () => {
    const script = join(CHART, 'files', 'postgresql-roles.sh');
    expect(await runProgram('bash', ['-n', script])).toMatchObject({ code: 0, stderr: '' });
  });

  it('Node can parse the script of helm test', async () => {
    const { code, stderr } = await runProgram(process.execPath, [
      '--check',
      join(CHART, 'files', 'helm-test.js'),
    ]);
    expect(stderr).toBe('');
    expect(code).toBe(0);
  });
});
