// `kubectl beat` where the kubeconfig says nothing of an API, as in a cluster: through a forwarded port, with the rights
// that the caller has (docs/contract/kubernetes.md, "kubectl beat").
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { serviceAccounts } from '../kube/service-accounts.ts';
import { type Kubelet, startKubelet } from '../support/kubelet.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatFixture, KUBECTL_BEAT, openBeatFixture } from './kubectl-beat-fixture.ts';

const SERVICES = { apiVersion: 'v1', kind: 'Service', plural: 'services', namespaced: true };
const PODS = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };
const NODES = { apiVersion: 'v1', kind: 'Node', plural: 'nodes', namespaced: false };

const READ_MONITORS = { apiGroups: ['beatkeeper.dev'], resources: ['monitors'], verbs: ['get', 'list'] };
const MINT = { apiGroups: [''], resources: ['serviceaccounts/token'], verbs: ['create'] };
const MINT_MEMBER = { ...MINT, resourceNames: ['beatkeeper-member'] };
const SEE_PODS = { apiGroups: [''], resources: ['services', 'pods'], verbs: ['get', 'list'] };
const FORWARD = { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] };

describe.skipIf(!hasCluster)('kubectl beat through a forwarded port', () => {
  let fixture: BeatFixture;
  let kubelet: Kubelet;
  const node = `beat-${randomUUID()}`;
  const labels = { 'app.kubernetes.io/component': 'api' };
  const pod = () => ({ namespace: fixture.namespace, name: 'beatkeeper-api-0' });

  beforeAll(async () => {
    fixture = await openBeatFixture();
    kubelet = await startKubelet();
    await createNode();
    await createApi();
    await fixture.createReady('worker');
    await reportFailure();
  });
  afterAll(async () => {
    await fixture?.kube.client.delete(PODS, pod());
    await fixture?.kube.client.delete(NODES, { name: node });
    await fixture?.close();
    await kubelet?.close();
  });

  async function createNode(): Promise<void> {
    await fixture.kube.client.create(NODES, { metadata: { name: node } });
    const status = {
      addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
      daemonEndpoints: { kubeletEndpoint: { Port: kubelet.port } },
    };
    await fixture.kube.client.mergePatch(NODES, { name: node }, { status }, { subresource: 'status' });
  }

  /** What the chart makes: the Service names the container's port by its name. */
  async function createApi(): Promise<void> {
    const { kube, namespace, trustingUrl } = fixture;
    await kube.client.create(serviceAccounts, { metadata: { namespace, name: 'default' } });
    await kube.client.create(SERVICES, {
      metadata: { namespace, name: 'beatkeeper-api' },
      spec: { selector: labels, ports: [{ name: 'http', port: 80, targetPort: 'http' }] },
    } as KubeObject);
    const port = Number(new URL(trustingUrl).port);
    await kube.client.create(PODS, {
      metadata: { ...pod(), labels },
      spec: {
        nodeName: node,
        automountServiceAccountToken: false,
        containers: [{ name: 'api', image: 'none', ports: [{ name: 'http', containerPort: port }] }],
      },
    } as KubeObject);
    await setReady('True');
  }

  /** The worker has an open incident then, whatever it had before. */
  async function reportFailure(): Promise<void> {
    await fixture.beat('worker-beat', '/fail');
    const isOpen = async () => (await fixture.monitor('worker')).status?.openIncidents?.length;
    await waitFor(isOpen, { what: 'an incident is open' });
  }

  async function setReady(status: 'True' | 'False'): Promise<void> {
    const change = { status: { phase: 'Running', conditions: [{ type: 'Ready', status }] } };
    await fixture.kube.client.mergePatch(PODS, pod(), change, { subresource: 'status' });
  }

  it('explain asks the API in a ready pod of the release that manages the Monitor', async () => {
    const { code, stdout, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, 'explain', 'worker');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^What keeps alerts back:$/m);
    expect(kubelet.forwarded).toContain(Number(new URL(fixture.trustingUrl).port));
  });

  it('send reaches a publish address whose name only the cluster knows', async () => {
    const { code, stdout, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, 'send', 'worker');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/Accepted as beat \d+ of worker \(success\)/);
  });

  it('send opens no port to another Service, whatever the Secret names', async () => {
    await fixture.createReady('led-astray');
    await fixture.stopOperator();
    onTestFinished(() => fixture.startAgain());
    const secrets = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets', namespaced: true };
    const ref = { namespace: fixture.namespace, name: 'led-astray-beat' };
    const forwarded = kubelet.forwarded.length;
    for (const [service, namespace] of [
      ['beatkeeper-api', 'kube-system'],
      ['kubernetes', fixture.namespace],
    ]) {
      const url = `http://${service}.${namespace}.svc.cluster.local/ping/2f5f3c3a-1e11-4c59-9d62-3d0b9f4e8a6f`;
      const data = { url: Buffer.from(url).toString('base64') };
      await fixture.kube.client.mergePatch(secrets, ref, { data });
      const { code, stdout, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, 'send', 'led-astray');
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(
        `leads to the Service ${service} in the namespace ${namespace}, which is not that of the release ${fixture.namespace}/beatkeeper`,
      );
    }
    expect(kubelet.forwarded).toHaveLength(forwarded);
  });

  it('send takes the release that --release states', async () => {
    const args = ['send', 'worker', '--release', `${fixture.namespace}/other`];
    const { code, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(`which is not that of the release ${fixture.namespace}/other`);
  });

  it('an account with no more rights than it needs explains and acknowledges, with the token that it may have', async () => {
    const rules = [READ_MONITORS, MINT_MEMBER, SEE_PODS, FORWARD];
    const kubeconfig = await fixture.kubeconfigOf('member-of-the-team', rules);
    const explained = await fixture.beatctlAs(kubeconfig, 'explain', 'worker');
    expect(explained, explained.stderr).toMatchObject({ code: 0 });
    await reportFailure();
    const acknowledged = await fixture.beatctlAs(kubeconfig, 'ack', 'worker');
    expect(acknowledged, acknowledged.stderr).toMatchObject({ code: 0 });
    expect(acknowledged.stdout).toContain('acknowledged: ');
  });

  it('dashboard keeps the port open for more than one call, until Ctrl-C', async () => {
    const args = [KUBECTL_BEAT, 'dashboard', '-n', fixture.namespace, '-o', 'json'];
    const env = { PATH: process.env.PATH, HOME: fixture.folder, KUBECONFIG: fixture.plainKubeconfig };
    const child = spawn(process.execPath, args, { env });
    onTestFinished(() => void child.kill('SIGKILL'));
    const lines: string[] = [];
    createInterface(child.stdout).on('line', (line) => lines.push(line));
    await waitFor(() => lines.at(-1) === '}', { what: 'the address is printed' });
    const { url } = JSON.parse(lines.join('')) as { url: string };
    const [address, token] = url.split('/sign-in#token=');
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    for (const path of ['/v1/monitors', '/v1/incidents']) {
      const headers = { authorization: `Bearer ${token}`, 'service-project': fixture.namespace };
      expect((await fetch(`${address}${path}`, { headers })).status).toBe(200);
    }
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
    await expect(fetch(`${address}/v1/monitors`)).rejects.toThrow();
  });

  it.each([
    [
      'no right to read Monitors',
      [],
      ['status'],
      /^kubectl beat: You may not list the Monitors in the namespace /,
    ],
    [
      'no right to create a token',
      [READ_MONITORS],
      ['ack', 'worker'],
      /You may not create a token of the service account beatkeeper-member or beatkeeper-owner/,
    ],
    [
      'no right to see the Service',
      [READ_MONITORS, MINT],
      ['ack', 'worker'],
      /You may not read the Service beatkeeper-api/,
    ],
    [
      'no right to forward a port',
      [READ_MONITORS, MINT, SEE_PODS],
      ['ack', 'worker'],
      /You may not forward a port to the pod beatkeeper-api-0/,
    ],
    [
      'no right to read the Secret',
      [READ_MONITORS],
      ['url', 'worker'],
      /You may not read the Secret worker-beat/,
    ],
    [
      'no right to change the Monitor',
      [READ_MONITORS],
      ['pause', 'worker'],
      /You may not change the Monitor worker/,
    ],
  ])('an account with %s is told so in one sentence', async (title, rules, args, sentence) => {
    await reportFailure();
    const kubeconfig = await fixture.kubeconfigOf(title.replaceAll(' ', '-').toLowerCase(), rules);
    const { code, stdout, stderr } = await fixture.beatctlAs(kubeconfig, ...args);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toMatch(sentence);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  it('explain without a right to ask the API prints what the Monitor says of itself, and still fails', async () => {
    const kubeconfig = await fixture.kubeconfigOf('reader', [READ_MONITORS]);
    const { code, stdout, stderr } = await fixture.beatctlAs(kubeconfig, 'explain', 'worker');
    expect(code).toBe(2);
    expect(stdout).toMatch(/^(Down|Up|Recovering)[^\n]*\n$/);
    expect(stderr).toContain('You may not create a token of the service account beatkeeper-viewer');
  });

  it('what the node says of a port where nobody listens is in the refusal', async () => {
    await reportFailure();
    kubelet.refusal = 'connection refused inside of the pod';
    onTestFinished(() => {
      kubelet.refusal = undefined;
    });
    const { code, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, 'ack', 'worker');
    expect(code).toBe(2);
    expect(stderr).toContain('The port of the pod beatkeeper-api-0');
    expect(stderr).toContain('connection refused inside of the pod');
  });

  it('without a ready pod the refusal names the Service', async () => {
    await reportFailure();
    await setReady('False');
    onTestFinished(() => setReady('True'));
    const { code, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, 'ack', 'worker');
    expect(code).toBe(2);
    expect(stderr).toContain(
      `No pod of the Service beatkeeper-api in the namespace ${fixture.namespace} is ready`,
    );
  });

  it('with a release that is not there the refusal says how to state it', async () => {
    const args = ['dashboard', '--release', `${fixture.namespace}/other`];
    const { code, stderr } = await fixture.beatctlAs(fixture.plainKubeconfig, ...args);
    expect(code).toBe(2);
    expect(stderr).toContain('There is no service account other-member');
    expect(stderr).toContain('--release');
  });
});
