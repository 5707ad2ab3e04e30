// Shared by the tests of the custom resource definitions: kubectl in a namespace of its own, and what it says of many objects.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { stringify } from 'yaml';
import { findControlPlaneBinaries } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { adminKubeconfig } from '../kube/cluster.ts';
import { type Outcome, runProgram } from '../support/run-program.ts';

export type CrdKind = 'Monitor' | 'Callback' | 'Rule';
/** The name of an object, its spec, and words of its refusal. */
export type Refused = readonly [name: string, spec: object, words: string];

/** A measurement rule that a Monitor and a Rule may have. */
export const GOOD_RULE = { metricType: 'gauge', minimum: 1 };
export const CALLBACK_URL = 'https://example.com/alerts';

export interface CrdFixture {
  kubectl(args: string[], input?: string): Promise<Outcome>;
  apply(kind: CrdKind, name: string, spec: object): Promise<Outcome>;
  /** One call for many objects: kubectl continues after a refusal. Nothing is kept. */
  createAll(kind: CrdKind, specs: Iterable<readonly [name: string, spec: object]>): Promise<Outcome>;
  expectAccepted(kind: CrdKind, good: Record<string, object>): Promise<void>;
  expectRefused(kind: CrdKind, bad: readonly Refused[]): Promise<void>;
  close(): Promise<void>;
}

export async function openCrdFixture(): Promise<CrdFixture> {
  const namespace = `crd-${randomUUID().slice(0, 8)}`;
  const folder = await findControlPlaneBinaries(() => undefined);
  const found = folder === undefined ? '' : join(folder, 'kubectl');
  const program = found && existsSync(found) ? found : 'kubectl';
  const target = ['--kubeconfig', adminKubeconfig, '--namespace', namespace];
  const kubectl = (args: string[], input?: string) => runProgram(program, [...target, ...args], { input });
  const created = await kubectl(['create', 'namespace', namespace]);
  expect(created.stderr).toBe('');
  const createAll: CrdFixture['createAll'] = (kind, specs) => {
    const manifests = [...specs].map(([name, spec]) => manifest(kind, name, spec));
    return kubectl(['create', '--dry-run=server', '-o', 'name', '-f', '-'], manifests.join('---\n'));
  };
  return {
    kubectl,
    createAll,
    apply: (kind, name, spec) => kubectl(['apply', '-f', '-'], manifest(kind, name, spec)),
    async expectAccepted(kind, good) {
      const answer = await createAll(kind, Object.entries(good));
      expect(answer.stderr).toBe('');
      expect(answer.stdout.trim().split('\n')).toHaveLength(Object.keys(good).length);
    },
    async expectRefused(kind, bad) {
      const answer = await createAll(
        kind,
        bad.map(([name, spec]) => [name, spec]),
      );
      expect(answer.stdout).toBe('');
      const words = refusals(answer.stderr);
      for (const [name, , expected] of bad)
        expect([name, words.get(name)]).toEqual([name, expect.stringContaining(expected)]);
    },
    async close() {
      await kubectl(['delete', 'monitors,callbacks,rules', '--all', '--wait=false']);
      await kubectl(['delete', 'namespace', namespace, '--wait=false']);
    },
  };
}

function manifest(kind: CrdKind, name: string, spec: object): string {
  return stringify({ apiVersion: 'beatkeeper.dev/v1alpha1', kind, metadata: { name }, spec });
}

/** The messages of kubectl about each object, by name. */
function refusals(words: string): Map<string, string> {
  const named = words
    .split('\n')
    .map((line) => [/" is invalid: /.test(line) && /"([^"]+)" is invalid/.exec(line)?.[1], line]);
  return new Map(named.filter((entry): entry is [string, string] => typeof entry[0] === 'string'));
}
