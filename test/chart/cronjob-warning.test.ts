// A real API server warns whoever annotates a CronJob for Beatkeeper, because nothing else says yet that it has no effect.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { startTestControlPlane, type TestControlPlane } from '../support/control-plane.ts';
import { runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import { findProgram, render, requireHelm } from './helm.ts';

const helm = await requireHelm();
const kubectl = (await findProgram('kubectl')) ?? '';
const WARNING =
  /^Warning: .*: annotations of beatkeeper\.dev on a CronJob have no effect yet: declare a Monitor instead\n$/;
const TAKEN = { code: 0, stderr: '' };
const WARNED = { code: 0, stderr: expect.stringMatching(WARNING) };

describe.skipIf(helm === undefined)('an API server with the chart', () => {
  let plane: TestControlPlane | undefined;

  beforeAll(async () => {
    plane = await startTestControlPlane();
    if (plane !== undefined && kubectl !== '') return;
    if (process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
    console.error(`No API server checks the warning. ${HOW_TO_GET_A_CONTROL_PLANE}`);
  }, 600_000);
  afterAll(async () => await plane?.stop());

  const run = async (args: string[], object?: object) => {
    const all = ['--kubeconfig', plane?.kubeconfig ?? '', ...args, ...(object ? ['--filename', '-'] : [])];
    const { code, stderr } = await runProgram(kubectl, all, { input: object && stringify(object) });
    return { code, stderr };
  };
  const cronJob = (name: string, annotations: Record<string, string> = {}, namespace = 'default') => {
    const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'job', image: 'job' }] } };
    return {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: { name, namespace, annotations },
      spec: { schedule: '0 2 * * *', jobTemplate: { spec: { template } } },
    };
  };
  /** Applies the policy as these values render it. */
  const install = async (operator: object) => {
    const policy = (await render(helm ?? '', { operator })).filter(({ metadata }) =>
      metadata.name.endsWith('-cronjobs'),
    );
    // Neither hooks nor kept: an uninstall removes both.
    expect(policy.map(({ kind, metadata }) => [kind, metadata.annotations])).toEqual([
      ['ValidatingAdmissionPolicy', undefined],
      ['ValidatingAdmissionPolicyBinding', undefined],
    ]);
    for (const object of policy) expect(await run(['apply'], object)).toEqual(TAKEN);
  };
  const create = (object: object) => run(['create', '--dry-run=server'], object);
  const annotated = (namespace?: string) => cronJob('probe', { 'beatkeeper.dev/monitor': 'true' }, namespace);

  it('a CronJob with an annotation of Beatkeeper is taken with a warning, and one without it in silence', async ({
    skip,
  }) => {
    if (plane === undefined) return skip('no API server');
    await install({});
    await waitFor(async () => (await create(annotated())).stderr !== '', { what: 'the policy is known' });
    for (const name of ['monitor', 'grace-seconds', 'callback', 'deletion-policy'])
      expect(await create(cronJob('named', { [`beatkeeper.dev/${name}`]: '300' })), name).toEqual(WARNED);
    expect(await create(cronJob('other', { 'example.com/monitor': 'true' }))).toEqual(TAKEN);

    expect(await run(['apply'], cronJob('backup'))).toEqual(TAKEN);
    expect(await run(['annotate', 'cronjob', 'backup', 'example.com/team=payments'])).toEqual(TAKEN);
    expect(await run(['annotate', 'cronjob', 'backup', 'beatkeeper.dev/monitor=true'])).toEqual(WARNED);
    expect(await run(['annotate', 'cronjob', 'backup', 'beatkeeper.dev/monitor-'])).toEqual(TAKEN);
    expect(await run(['delete', 'cronjob', 'backup'])).toEqual(TAKEN);
  });

  it('a release that watches single namespaces warns in those alone', async ({ skip }) => {
    if (plane === undefined) return skip('no API server');
    const id = randomUUID().slice(0, 8);
    const [shop, other] = [`shop-${id}`, `other-${id}`];
    for (const name of [shop, other]) expect(await run(['create', 'namespace', name])).toEqual(TAKEN);
    await install({ watchNamespaces: [shop], secretPolicy: 'always' });
    await waitFor(async () => (await create(annotated(other))).stderr === '', {
      what: 'no warning elsewhere',
    });
    await waitFor(async () => WARNING.test((await create(annotated(shop))).stderr), { what: 'the warning' });
    expect(await create(annotated(other))).toEqual(TAKEN);
  });
});
