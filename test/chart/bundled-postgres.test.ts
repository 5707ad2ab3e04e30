// The bundled Postgres keeps its data on its claim, whatever image the values name.
import { describe, expect, it } from 'vitest';
import { type Manifest, render, requireHelm, template } from './helm.ts';
import { pickPod, variable } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';

// What the official images declare as VOLUME. A container runtime mounts a new, empty folder at each of them that has
// no mount of its own, and deletes it with the container.
const IMAGE_VOLUMES: [string, string][] = [
  ['17', '/var/lib/postgresql/data'],
  ['17.6-alpine', '/var/lib/postgresql/data'],
  ['18', '/var/lib/postgresql'],
  ['19-bookworm', '/var/lib/postgresql'],
];

describe.skipIf(found === undefined)('the data of the bundled Postgres', () => {
  const databaseOf = async (values: object) => {
    const { spec } = pickPod(await render(helm, values), 'StatefulSet/beatkeeper-postgresql');
    const [container] = spec.containers;
    return { container, data: variable(container, 'PGDATA') ?? '', mounts: container?.volumeMounts ?? [] };
  };

  it.each(IMAGE_VOLUMES)(
    'data of the image %s are on the claim, and not in its own volume %s',
    async (tag, volume) => {
      const { container, data, mounts } = await databaseOf({ postgresql: { image: { tag } } });
      expect(container?.image).toBe(`postgres:${tag}`);
      const points = [...mounts, { name: 'of the image', mountPath: volume }];
      const above = points.filter(({ mountPath }) => `${data}/`.startsWith(`${mountPath}/`));
      const [nearest] = above.sort((a, b) => b.mountPath.length - a.mountPath.length);
      expect(nearest?.name).toBe('data');
      // The root of a volume may hold other things (`lost+found`), and initdb wants an empty folder.
      expect(data).not.toBe(nearest?.mountPath);
    },
  );

  it('the folder of the data has no version, so that another major version refuses them and never begins anew', async () => {
    const folders = await Promise.all(
      ['17', '18'].map(async (tag) => (await databaseOf({ postgresql: { image: { tag } } })).data),
    );
    expect(new Set(folders).size).toBe(1);
  });

  it.each(['17', '18.1-bookworm', '20', '100', 'bookworm', 17])(
    'the chart takes a tag from 17 on, and one that is no version: %s',
    async (tag) => {
      const { code, stdout } = await template(helm, { postgresql: { image: { tag } } });
      expect(code).toBe(0);
      expect(stdout).toContain(`image: "postgres:${tag}"`);
    },
  );

  it.each(['16', '16.9', '9.6-alpine', '1', '', 16])('the chart refuses the tag %j', async (tag) => {
    const { code, stderr } = await template(helm, { postgresql: { image: { tag } } });
    expect(code).not.toBe(0);
    expect(stderr).toContain('/postgresql/image/tag');
  });

  it.each([{}, { fullnameOverride: 'beats', commonLabels: { team: 'a' } }])(
    'Argo CD takes the claim for none of its own, and no tool deletes it with the release: %j',
    async (values) => {
      const manifests = await render(helm, values);
      const set = manifests.find(({ kind }) => kind === 'StatefulSet');
      const { spec } = set as Manifest & { spec: DatabaseSet };
      const { metadata } = spec.volumeClaimTemplates[0] ?? {};
      // Kubernetes gives a claim the labels of its template and of the selector.
      const labels = { ...metadata?.labels, ...spec.selector.matchLabels };
      expect(labels).not.toHaveProperty(['app.kubernetes.io/instance']);
      expect(metadata?.annotations).toMatchObject({
        'helm.sh/resource-policy': 'keep',
        'argocd.argoproj.io/sync-options': 'Delete=false,Prune=false',
      });
      // A selector selects the pods of this release alone.
      expect(pickPod(manifests, `StatefulSet/${set?.metadata.name}`).labels).toMatchObject(
        spec.selector.matchLabels,
      );
      expect(Object.values(spec.selector.matchLabels)).toContain(
        set?.metadata.name.replace('-postgresql', ''),
      );
    },
  );
});

interface DatabaseSet {
  selector: { matchLabels: Record<string, string> };
  volumeClaimTemplates: { metadata: Partial<Manifest['metadata']> }[];
}
