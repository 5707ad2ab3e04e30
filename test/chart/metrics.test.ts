// Alerts and dashboard use metrics that the service has.
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { createKubeMetrics } from '../../src/kube/kube-metrics.ts';
import { registerMonitorMetrics } from '../../src/operator/monitor-metrics.ts';
import { createOperatorMetrics } from '../../src/operator/operator-metrics.ts';
import { createSweeperMetrics } from '../../src/sweeper/sweeper-metrics.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { findPromtool } from '../support/promtool.ts';
import { runProgram } from '../support/run-program.ts';
import { CHART, listValuesFiles, type Manifest, pick, render, requireHelm } from './helm.ts';

const found = await requireHelm();
// Not in a test, whose time would be over where it must be built first.
const promtool = await findPromtool();
const everything = join(CHART, 'ci', 'everything-values.yaml');
const FULLNAME = 'beatkeeper-beats';

describe.skipIf(found === undefined)('the optional parts', () => {
  it('ServiceMonitor and PrometheusRule are off by default', async () => {
    const kinds = (await render(found ?? '')).map(({ kind }) => kind);
    expect(kinds).not.toContain('ServiceMonitor');
    expect(kinds).not.toContain('PrometheusRule');
  });

  it('the ServiceMonitor selects a Service of every role', async () => {
    const manifests = await render(found ?? '', {}, everything);
    const { spec } = pick(manifests, 'ServiceMonitor', FULLNAME) as Manifest & {
      spec: { selector: { matchLabels: Record<string, string> }; endpoints: { port: string }[] };
    };
    const wanted = Object.entries(spec.selector.matchLabels);
    const services = manifests.filter(
      ({ kind, metadata }) =>
        kind === 'Service' && wanted.every(([name, value]) => metadata.labels?.[name] === value),
    );
    const roles = services.map(({ metadata }) => metadata.labels?.['app.kubernetes.io/component']);
    expect(new Set(roles)).toEqual(new Set(['api', 'sweeper', 'operator']));
    for (const { spec: service } of services) {
      expect(service).toMatchObject({ ports: [{ name: spec.endpoints[0]?.port }] });
    }
  });

  it('no Service for clients leads to health and metrics, with or without a ServiceMonitor', async () => {
    for (const file of listValuesFiles()) {
      const services = (await render(found ?? '', {}, file)).filter(({ kind }) => kind === 'Service');
      const leading = services.filter(({ spec }) => JSON.stringify(spec).includes('health'));
      expect(leading.map(({ spec }) => (spec as { clusterIP?: string }).clusterIP)).toEqual(
        leading.map(() => 'None'),
      );
      const api = services.find(({ metadata }) => metadata.name.endsWith('-api'));
      expect(api?.metadata.labels).not.toHaveProperty(['beatkeeper.dev/metrics']);
      const { ports } = (api as Manifest).spec as { ports: { targetPort: string }[] };
      expect(ports.map(({ targetPort }) => targetPort)).toEqual(['http']);
    }
  });

  it('alerts and dashboard ask for the jobs that the ServiceMonitor makes', async () => {
    const manifests = await render(found ?? '', {}, everything);
    const jobs = manifests
      .filter(({ kind, metadata }) => kind === 'Service' && metadata.labels?.['beatkeeper.dev/metrics'])
      .map(({ metadata }) => metadata.name);
    const text = JSON.stringify(pick(manifests, 'PrometheusRule', FULLNAME).spec);
    const asked = [...text.matchAll(/job=\\"([^\\]+)\\"/g)].map(([, job]) => job);
    expect(asked.length).toBeGreaterThan(4);
    expect(asked.filter((job) => !jobs.includes(job ?? ''))).toEqual([]);
    const { data } = pick(manifests, 'ConfigMap', `${FULLNAME}-dashboard`);
    const panels = (data as Record<string, string>)['beatkeeper.json'] ?? '';
    const patterns = [...panels.matchAll(/job=~\\"([^\\]+)\\"/g)].map(
      ([, job = '']) => new RegExp(`^${job}$`),
    );
    expect(patterns.length).toBeGreaterThan(0);
    for (const pattern of patterns) expect(jobs.filter((job) => !pattern.test(job))).toEqual([]);
  });

  it('every alert uses metrics that the service registers', async () => {
    const manifests = await render(found ?? '', {}, everything);
    const { spec } = pick(manifests, 'PrometheusRule', FULLNAME) as Manifest & {
      spec: { groups: { rules: { alert: string; expr: string; annotations: { summary: string } }[] }[] };
    };
    const rules = spec.groups.flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(4);
    expect(await unknownMetrics(rules.map(({ expr }) => expr))).toEqual([]);
  });

  it('the alert about a missing encryption key counts no stored answers: no alert of a monitor waits for them', async () => {
    const { spec } = pick(await render(found ?? '', {}, everything), 'PrometheusRule', FULLNAME);
    const rules = JSON.stringify(spec);
    const selector = /beatkeeper_sealed_values\{([^}]*)\}/.exec(rules)?.[1]?.replaceAll('\\"', '"') ?? '';
    expect(selector.split(/, */)).toEqual(expect.arrayContaining(['configured="no"', 'kind!="answer"']));
  });

  it.each(['beatkeeper.json', 'beatkeeper-monitors.json'])(
    'every panel of the dashboard %s uses metrics that the service registers, in an expression that Prometheus takes',
    async (name) => {
      const { data } = pick(await render(found ?? '', {}, everything), 'ConfigMap', `${FULLNAME}-dashboard`);
      const dashboard = JSON.parse((data as Record<string, string>)[name] ?? '') as Dashboard;
      const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
      expect(expressions.length).toBeGreaterThan(5);
      expect(await unknownMetrics(expressions)).toEqual([]);
      expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
      if (promtool !== undefined) expect(await checkExpressions(promtool, expressions)).toBe('');
    },
  );

  it('the dashboard of Monitors tells two of one name apart where Prometheus keeps its own label of the namespace', async ({
    skip,
  }) => {
    if (promtool === undefined) return skip('no promtool');
    const { data } = pick(await render(found ?? '', {}, everything), 'ConfigMap', `${FULLNAME}-dashboard`);
    const { panels } = JSON.parse(
      (data as Record<string, string>)['beatkeeper-monitors.json'] ?? '',
    ) as Dashboard;
    const expression = panels[0]?.targets[0]?.expr ?? '';
    expect(await checkCount(promtool, expression, ['payments', 'shop'])).toBe('');
    for (const { expr } of panels.flatMap(({ targets }) => targets))
      if (expr.includes('by (namespace')) expect(expr).toContain('"exported_namespace", "(.+)"');
  });

  it('the ServiceMonitor leaves a Monitor its namespace, and gives each series that of Beatkeeper', async () => {
    const { spec } = pick(await render(found ?? '', {}, everything), 'ServiceMonitor', FULLNAME);
    expect(spec).toMatchObject({
      endpoints: [
        {
          honorLabels: true,
          relabelings: [{ sourceLabels: ['__meta_kubernetes_namespace'], targetLabel: 'release_namespace' }],
        },
      ],
    });
  });

  it('the operator is told how many Monitors may have metrics, and none where they are off', async () => {
    const told = async (monitors: object) => {
      const manifests = await render(found ?? '', { metrics: { monitors } });
      const text = JSON.stringify(pick(manifests, 'Deployment', 'beatkeeper-operator'));
      return /"BEATKEEPER_MONITOR_METRICS_MAX","value":"(\d+)"/.exec(text)?.[1];
    };
    expect(await told({})).toBe('20000');
    expect(await told({ max: 100_000 })).toBe('100000');
    expect(await told({ enabled: false })).toBe('0');
  });
});

interface Dashboard {
  panels: { id: number; targets: { expr: string }[] }[];
}

/** What promtool says against expressions of panels, whose variables Grafana replaces. */
async function checkExpressions(promtool: string, expressions: string[]): Promise<string> {
  const rules = expressions.map((expression, index) => ({
    record: `panel:${index}`,
    expr: expression.replaceAll('$__rate_interval', '5m'),
  }));
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-dashboard-'));
  try {
    const file = join(folder, 'rules.yaml');
    await writeFile(file, stringify({ groups: [{ name: 'panels', rules }] }));
    const { code, stdout, stderr } = await runProgram(promtool, ['check', 'rules', '--lint=none', file]);
    return code === 0 ? '' : stdout + stderr;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What promtool says unless the expression counts one Monitor `backup` that is up in each of the namespaces. */
async function checkCount(promtool: string, expression: string, namespaces: string[]): Promise<string> {
  const series = namespaces.map((name) => ({
    series: `beatkeeper_monitor_health{namespace="beatkeeper",exported_namespace="${name}",name="backup",health="up"}`,
    values: '1',
  }));
  const expr = expression.replace('$namespace', '.*');
  const expected = {
    expr,
    eval_time: '0',
    exp_samples: [{ labels: '{health="up"}', value: namespaces.length }],
  };
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-dashboard-'));
  try {
    const file = join(folder, 'tests.yaml');
    await writeFile(file, stringify({ tests: [{ input_series: series, promql_expr_test: [expected] }] }));
    const { code, stdout, stderr } = await runProgram(promtool, ['test', 'rules', file]);
    return code === 0 ? '' : stdout + stderr;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

// The metrics in the expressions, by the names before braces, that no part of the service registers.
async function unknownMetrics(expressions: string[]): Promise<string[]> {
  const { registry } = createTelemetry({ role: 'test', logLevel: 'silent' });
  createKubeMetrics(registry);
  createOperatorMetrics(registry);
  registerMonitorMetrics(registry, { list: () => [], max: 1 });
  createSweeperMetrics(registry);
  const known = new Set(['up', ...registry.getMetricsAsArray().map(({ name }) => name), ...namesInApi()]);
  const asked = expressions.flatMap((expression) =>
    [...expression.matchAll(/([a-z_0-9]+)\{/g)].map(([, name = '']) => name.replace(/_bucket$/, '')),
  );
  return asked.filter((name) => !known.has(name));
}

function namesInApi(): string[] {
  const folder = join(CHART, '..', '..', 'src', 'api');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  return files.flatMap((name) => {
    const text = readFileSync(join(folder, name), 'utf8');
    return [...text.matchAll(/'(beatkeeper_[a-z_]+)'/g)].map(([, metric = '']) => metric);
  });
}
