// The alerts of the chart, each evaluated by promtool on samples after which it fires and on others after which it does not.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { findPromtool, HOW_TO_GET_PROMTOOL } from '../support/promtool.ts';
import { runProgram } from '../support/run-program.ts';
import { ALERT_CASES, type AlertCase, type Samples } from './alert-cases.ts';
import { CHART, NAMESPACE, pick, RELEASE, readManifests, render, requireHelm } from './helm.ts';

interface Rule {
  alert: string;
  expr: string;
  labels: Record<string, string>;
  annotations: { summary: string; description: string };
}

const helm = await requireHelm();
const promtool = (await findPromtool()) ?? '';
if (promtool === '') console.error(HOW_TO_GET_PROMTOOL);
if (promtool === '' && process.env.CI) throw new Error(HOW_TO_GET_PROMTOOL);
const ENABLED = { metrics: { serviceMonitor: { enabled: true }, prometheusRule: { enabled: true } } };

let folder: string;
let rules: Rule[];

beforeAll(async () => {
  if (helm === undefined) return;
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-alerts-'));
  const { spec } = pick(await render(helm, ENABLED), 'PrometheusRule', RELEASE) as unknown as {
    spec: { groups: { rules: Rule[] }[] };
  };
  rules = spec.groups.flatMap((group) => group.rules);
  await writeFile(join(folder, 'rules.yaml'), stringify(spec));
});
afterAll(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
});

const caseOf = (alert: string): AlertCase => {
  const known = ALERT_CASES[alert];
  if (known === undefined) throw new Error(`alert-cases.ts has no case of ${alert}.`);
  return known;
};

/** What promtool says about samples, after which the alert fires with these words, or does not. */
async function evaluate(tests: { rule: Rule; samples: Samples; fires?: AlertCase }[]) {
  const written = {
    rule_files: ['rules.yaml'],
    evaluation_interval: '1m',
    tests: tests.map(({ rule, samples, fires }) => ({
      name: rule.alert,
      interval: '1m',
      input_series: Object.entries(samples).map(([series, values]) => ({ series, values })),
      alert_rule_test: [
        { eval_time: '2h', alertname: rule.alert, exp_alerts: fires ? [expected(rule, fires)] : [] },
      ],
    })),
  };
  await writeFile(join(folder, 'tests.yaml'), stringify(written));
  return await runProgram(promtool, ['test', 'rules', 'tests.yaml'], { cwd: folder });
}

const expected = ({ labels, annotations }: Rule, { labels: more, summary }: AlertCase) => ({
  exp_labels: { ...labels, ...more },
  exp_annotations: { ...annotations, ...(summary && { summary }) },
});

const PASSED = { code: 0, stderr: '' };

describe.skipIf(helm === undefined || promtool === '')('the alerts', () => {
  it('promtool takes the rules', async () => {
    const { code, stdout, stderr } = await runProgram(
      promtool,
      ['check', 'rules', '--lint=all', 'rules.yaml'],
      {
        cwd: folder,
      },
    );
    expect(code, stdout + stderr).toBe(0);
  });

  it('each alert has a case in which it fires and one in which it does not, and there is no case without an alert', () => {
    expect(rules.map(({ alert }) => alert).toSorted()).toEqual(Object.keys(ALERT_CASES).toSorted());
  });

  it('each alert fires in its case, with the words that people read', async () => {
    const tests = rules.flatMap((rule) => {
      const fires = caseOf(rule.alert);
      return [fires.fires, ...(fires.firesToo ? [fires.firesToo] : [])].map((samples) => ({
        ...{ rule, fires, samples },
      }));
    });
    expect(await evaluate(tests)).toMatchObject(PASSED);
  });

  it('no alert fires at its bound, or for what is over', async () => {
    const tests = rules.map((rule) => ({ rule, samples: caseOf(rule.alert).silent }));
    expect(await evaluate(tests)).toMatchObject(PASSED);
  });

  it('no alert is about an installation of the same name in another namespace', async () => {
    const elsewhere = (samples: Samples) =>
      Object.fromEntries(
        Object.entries(samples).map(([series, values]) => [
          series.replace(`="${NAMESPACE}"`, '="other"'),
          values,
        ]),
      );
    // These fire where they see no target at all.
    const others = rules.filter(({ alert }) => !/(Api|Sweeper|Operator)Down$/.test(alert));
    const tests = others.map((rule) => ({ rule, samples: elsewhere(caseOf(rule.alert).fires) }));
    expect(await evaluate(tests)).toMatchObject(PASSED);
  });

  it('no alert of one installation has the labels of another one of the cluster', async () => {
    const labelsOf = async (release: string, namespace: string) => {
      const values = ['--values', '-'];
      const args = ['template', release, CHART, '--namespace', namespace, ...values];
      const { stdout } = await runProgram(helm ?? '', args, { input: stringify(ENABLED) });
      const rule = readManifests(stdout).find(({ kind }) => kind === 'PrometheusRule');
      const spec = rule?.spec as { groups: { rules: Rule[] }[] } | undefined;
      return (spec?.groups ?? []).flatMap((group) =>
        group.rules.map(({ alert, labels }) => stringify({ alert, labels })),
      );
    };
    const all = [
      ...(await labelsOf('beatkeeper', 'one')),
      ...(await labelsOf('beatkeeper', 'two')),
      ...(await labelsOf('other', 'two')),
    ];
    expect(all.length).toBe(3 * rules.length);
    expect(new Set(all).size).toBe(all.length);
  });

  it('an alert says what it means and what to do', () => {
    for (const { labels, annotations } of rules) {
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(annotations.summary).toMatch(/^\S.*[^.]$/);
      expect(annotations.description.length).toBeGreaterThan(30);
    }
  });

  it('each metric that the documentation tells to watch has an alert', async () => {
    const page = await readFile(join(CHART, '..', '..', 'docs', 'operations.md'), 'utf8');
    const [, section = ''] = page.split('## Alerts about Beatkeeper itself');
    const rows = [...section.matchAll(/^\| `([a-z_]+)(?:\{[^`]*\})?` \|[^|]*\| ([^|]*)\|$/gm)];
    const promised = rows.filter(([, , when = '']) => when.trim() !== '').map(([, metric = '']) => metric);
    expect(promised.length).toBeGreaterThan(10);
    const asked = rules.map(({ expr }) => expr).join('\n');
    expect(promised.filter((metric) => !asked.includes(metric))).toEqual([]);
  });
});
