// The committed CRDs and their copies in the chart are up to date with the contract.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { crdManifests } from '../../src/contract/crd/crd-manifests.ts';
import { explainFields } from '../../src/contract/crd/explain-fields.ts';
import { toStructural } from '../../src/contract/crd/structural.ts';
import { generatedFiles } from '../../src/contract/generate.ts';

const root = new URL('../../', import.meta.url);

describe('generated files', () => {
  it.each([...generatedFiles()])('%s is up to date', (path, content) => {
    expect(readFileSync(new URL(path, root), 'utf8'), 'Run "npm run generate".').toBe(content);
  });

  it('the committed CRDs have a floor of 60 seconds, and a development run lowers it', () => {
    const floors = (limit: number) => {
      const manifest = JSON.stringify(crdManifests({ minimumIntervalSeconds: limit })['monitors.yaml']);
      const minimum = (field: string) =>
        new RegExp(`"${field}":\\{[^}]*?"minimum":(\\d+)`).exec(manifest)?.[1];
      return [minimum('intervalSeconds'), minimum('graceSeconds')];
    };
    expect(floors(60)).toEqual(['60', '60']);
    expect(floors(2)).toEqual(['2', '2']);
    expect(generatedFiles().get('crds/monitors.yaml')).toContain('minimum: 60\n');
  });

  it('a schema that would lose a check makes no CRD', () => {
    expect(() => toStructural({ type: 'object', properties: { a: { oneOf: [] } } })).toThrow('no oneOf');
  });

  it('every field of a CRD needs a description, in lists and maps too', () => {
    const field = { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } };
    const texts = { list: 'A list.', 'list.*.a': 'A field.' };
    expect(JSON.stringify(explainFields(field, 'list', texts))).toContain('A field.');
    expect(() => explainFields(field, 'list', { list: 'A list.' })).toThrow('Describe list.*.a');
  });
});
