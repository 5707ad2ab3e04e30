// Traffic inside the cluster: https of `api`, and the policies that bound what pods reach.
import { BlockList, isIPv6 } from 'node:net';
import { describe, expect, it } from 'vitest';
import { type Manifest, NAMESPACE, pick, render, requireHelm, template } from './helm.ts';
import { listPods } from './pods.ts';

const helm = await requireHelm();

describe.skipIf(helm === undefined)('https of api', () => {
  const withTls = (api: object = {}) =>
    render(helm ?? '', { api: { tls: { existingSecret: 'api-tls' }, ...api } });

  it('a certificate makes api speak https, its clients call it so, and the key is in the pods of api alone', async () => {
    const manifests = await withTls();
    const pods = listPods(manifests);
    const valuesOf = (name: string) =>
      pods.flatMap(({ owner, containers }) =>
        containers.flatMap(({ env = [] }) =>
          env.filter((one) => one.name === name).map(({ value }) => [owner.replace(/.*-/, ''), value]),
        ),
      );
    const url = `https://beatkeeper-api.${NAMESPACE}.svc`;
    expect(valuesOf('BEATKEEPER_TLS_FOLDER')).toEqual([['api', '/etc/beatkeeper/tls']]);
    expect(valuesOf('BEATKEEPER_API_URL')).toEqual([['operator', url]]);
    expect(valuesOf('API_URL')).toEqual([['test', url]]);
    const authority = '/etc/beatkeeper/api/ca.crt';
    expect(valuesOf('BEATKEEPER_API_CA_FILE').sort()).toEqual([
      ['operator', authority],
      ['test', authority],
    ]);
    const holders = pods.flatMap(({ owner, spec }) =>
      volumesOf(spec)
        .filter(({ secret }) => secret?.secretName === 'api-tls')
        .map(({ secret }) => [owner.replace(/.*-/, ''), secret?.items.map(({ key }) => key).join()]),
    );
    expect(holders.sort()).toEqual([
      ['api', 'tls.crt,tls.key'],
      ['operator', 'ca.crt'],
      ['test', 'ca.crt'],
    ]);
    const config = pick(manifests, 'ConfigMap', 'beatkeeper-config').data;
    expect(config).toMatchObject({ BEATKEEPER_PUBLIC_URL: url });
  });

  it('the Service has the port and the protocol of https, or the port of the values', async () => {
    const portOf = async (manifests: Manifest[]) =>
      (pick(manifests, 'Service', 'beatkeeper-api').spec as { ports: object[] }).ports;
    expect(await portOf(await withTls())).toMatchObject([{ name: 'https', port: 443, appProtocol: 'https' }]);
    expect(await portOf(await withTls({ service: { port: 8443 } }))).toMatchObject([{ port: 8443 }]);
    expect(await portOf(await render(helm ?? ''))).toMatchObject([
      { name: 'http', port: 80, appProtocol: 'http' },
    ]);
    const ingress = { enabled: true, host: 'beats.example.com' };
    const text = JSON.stringify(pick(await withTls({ ingress }), 'Ingress', 'beatkeeper-api'));
    expect(text).toContain('"port":{"name":"https"}');
  });
});

interface Policy {
  podSelector: { matchLabels: Record<string, string> };
  policyTypes: string[];
  egress: { to: Peer[]; ports?: { port: number }[] }[];
}
interface Peer {
  ipBlock?: { cidr: string; except?: string[] };
  podSelector?: { matchLabels: Record<string, string> };
}

describe.skipIf(helm === undefined)('the policies of egress', () => {
  const egress = { enabled: true, apiServer: ['10.0.0.2/32'] };
  const policiesOf = async (values: object) =>
    new Map(
      (await render(helm ?? '', values))
        .filter(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name.endsWith('-egress'))
        .map(({ metadata, spec }) => [metadata.name.split('-').at(-2) ?? '', spec as Policy]),
    );

  it('there are none by default', async () => {
    expect((await policiesOf({})).size).toBe(0);
  });

  it('api and sweeper reach public addresses and the allowed private ones, and of the two only api the API server', async () => {
    const callbacks = { allowedPrivateDestinations: ['10.20.0.0/16', 'fd12::/32', 'svc.cluster.local'] };
    const policies = await policiesOf({ networkPolicy: { egress }, callbacks });
    expect([...policies.keys()].sort()).toEqual(['api', 'migrate', 'operator', 'secrets', 'sweeper']);
    const open = ['93.184.216.34', '2606:4700::1111', '10.20.3.4', 'fd12::1'];
    const shut = [
      ...['10.1.2.3', '172.16.0.1', '192.168.1.1', '127.0.0.1', '100.64.0.1', '224.0.0.1', '0.0.0.0'],
      ...['169.254.169.254', '100.100.100.200', '168.63.129.16', '192.0.0.192'],
      ...['fd00:ec2::254', 'fd20:ce::254', 'fe80::1', 'ff02::1'],
    ];
    for (const role of ['api', 'sweeper']) {
      const reached = [...open, ...shut].filter((address) => reaches(policies.get(role), address));
      expect(reached, role).toEqual(open);
    }
    const callers = [...policies].filter(([, policy]) => reaches(policy, '10.0.0.2')).map(([role]) => role);
    expect(callers.sort()).toEqual(['api', 'operator', 'secrets']);
    for (const role of ['operator', 'migrate', 'secrets'])
      expect(reaches(policies.get(role), '93.184.216.34'), role).toBe(false);
  });

  it('each role reaches DNS and the pods that it needs, and no others', async () => {
    const policies = await policiesOf({ networkPolicy: { egress } });
    const podsOf = ({ egress: rules }: Policy) =>
      rules.flatMap(({ to, ports = [] }) =>
        to.flatMap(({ podSelector }) =>
          podSelector === undefined
            ? []
            : [`${podSelector.matchLabels['app.kubernetes.io/component']}:${ports[0]?.port}`],
        ),
      );
    const reached: Record<string, string[]> = { operator: ['api:8080'], secrets: [] };
    for (const [role, policy] of policies) {
      expect(policy.policyTypes).toEqual(['Egress']);
      expect(policy.egress[0]?.ports?.map(({ port }) => port)).toEqual([53, 53]);
      expect(podsOf(policy), role).toEqual(reached[role] ?? ['postgresql:5432']);
    }
  });

  it('they have no blank lines, whichever databases there are', async () => {
    const database = ['10.0.1.5/32'];
    for (const more of [
      {},
      { jurisdictions: { eu: { existingSecret: 'beats-eu' } } },
      { postgresql: { enabled: false }, database: { existingSecret: 'mine' } },
    ]) {
      const values = { ...more, networkPolicy: { egress: { ...egress, database } } };
      const { stdout } = await template(helm ?? '', values);
      const policies = stdout.split('---\n').filter((text) => text.includes('policyTypes: [Egress]'));
      expect(policies).toHaveLength(5);
      for (const text of policies) expect(text.trimEnd()).not.toMatch(/\n\s*\n/);
    }
  });

  it('an external database is reached at its addresses', async () => {
    const external = { postgresql: { enabled: false }, database: { existingSecret: 'mine' } };
    const database = ['10.0.1.5/32'];
    const policies = await policiesOf({ ...external, networkPolicy: { egress: { ...egress, database } } });
    const callers = [...policies].filter(([, policy]) => reaches(policy, '10.0.1.5')).map(([role]) => role);
    expect(callers.sort()).toEqual(['api', 'migrate', 'sweeper']);
  });

  it.each([
    [{ networkPolicy: { egress: { enabled: true } } }, 'needs networkPolicy.egress.apiServer'],
    [{ networkPolicy: { enabled: false, egress } }, 'needs networkPolicy.enabled'],
    [
      {
        networkPolicy: { egress },
        postgresql: { enabled: false },
        database: { existingSecret: 'mine' },
      },
      'needs networkPolicy.egress.database',
    ],
  ])('values that would cut a pod off are refused: %j', async (values, words) => {
    const { code, stderr } = await template(helm ?? '', values);
    expect(code).not.toBe(0);
    expect(stderr).toContain(words);
  });
});

function reaches(policy: Policy | undefined, address: string): boolean {
  const family = isIPv6(address) ? 'ipv6' : 'ipv4';
  const isIn = (cidr: string) => {
    const [network = '', bits = ''] = cidr.split('/');
    if (isIPv6(network) !== isIPv6(address)) return false;
    const block = new BlockList();
    block.addSubnet(network, Number(bits), family);
    return block.check(address, family);
  };
  const blocks = (policy?.egress ?? []).flatMap(({ to }) => to.flatMap(({ ipBlock }) => ipBlock ?? []));
  return blocks.some(({ cidr, except = [] }) => isIn(cidr) && !except.some(isIn));
}

interface Volume {
  secret?: { secretName: string; items: { key: string }[] };
}

function volumesOf(spec: object): Volume[] {
  return 'volumes' in spec && Array.isArray(spec.volumes) ? spec.volumes : [];
}
