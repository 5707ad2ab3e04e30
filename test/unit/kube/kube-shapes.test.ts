// The pure parts: paths, keys, errors, conditions, status comparison, times and lines.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSameStatus } from '../../../src/kube/apply-status.ts';
import { findCondition, type KubeCondition, setCondition } from '../../../src/kube/conditions.ts';
import { isConflict, isPassing, kubeErrorFromAnswer } from '../../../src/kube/kube-error.ts';
import {
  formatMicroTime,
  objectKey,
  resourcePath,
  withoutManagedFields,
} from '../../../src/kube/kube-object.ts';
import { splitLines } from '../../../src/kube/kube-transport.ts';

const jobs = { apiVersion: 'batch/v1', kind: 'Job', plural: 'jobs', namespaced: true };
const nodes = { apiVersion: 'v1', kind: 'Node', plural: 'nodes', namespaced: false };

describe('paths and keys', () => {
  it('a resource path is the one of the API', () => {
    const path = '/apis/batch/v1/namespaces/shop/jobs/one/status';
    expect(resourcePath(jobs, { namespace: 'shop', name: 'one' }, 'status')).toBe(path);
    expect(resourcePath(jobs)).toBe('/apis/batch/v1/jobs');
    expect(resourcePath(nodes, { name: 'n/1' })).toBe('/api/v1/nodes/n%2F1');
    expect(() => resourcePath(jobs, { name: 'one' })).toThrow('needs a namespace');
  });

  it('an object key has the name and, if there is one, the namespace', () => {
    expect(objectKey({ metadata: { name: 'a' } })).toBe('a');
    expect(objectKey({ metadata: { namespace: 'n', name: 'a.b' } })).toBe('n/a.b');
  });

  it('withoutManagedFields does not change its argument', () => {
    const object = { metadata: { name: 'a', managedFields: [{}] }, spec: 1 };
    expect(withoutManagedFields(object)).toEqual({ metadata: { name: 'a' }, spec: 1 });
    expect(object.metadata.managedFields).toHaveLength(1);
  });
});

describe('an error', () => {
  it('a KubeError has the fields of the Status', () => {
    const body = { kind: 'Status', code: 409, reason: 'Conflict', message: 'moved', details: { name: 'a' } };
    const error = kubeErrorFromAnswer(409, JSON.stringify(body));
    expect(error).toMatchObject({
      status: 409,
      reason: 'Conflict',
      message: 'moved',
      details: { name: 'a' },
    });
    expect(isConflict(error)).toBe(true);
    expect(isPassing(error)).toBe(false);
  });

  it('any answer gives a KubeError, even the one of a proxy', () => {
    expect(kubeErrorFromAnswer(502, '<html>', '3')).toMatchObject({ status: 502, retryAfterMs: 3000 });
    fc.assert(
      fc.property(fc.integer({ min: 300, max: 599 }), fc.string(), fc.string(), (code, body, retryAfter) => {
        const error = kubeErrorFromAnswer(code, body, retryAfter);
        expect(error.message).not.toBe('');
        expect(error.retryAfterMs ?? 0).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

describe('conditions', () => {
  const facts = fc.record({
    type: fc.constantFrom('Ready', 'Synced', 'Healthy'),
    status: fc.constantFrom('True', 'False', 'Unknown'),
    reason: fc.constantFrom('A', 'B'),
    message: fc.string(),
  });

  it('setCondition changes the time only when the status changes, and always sets the generation', () => {
    fc.assert(
      fc.property(fc.array(facts, { maxLength: 30 }), (list) => {
        let conditions: KubeCondition[] = [];
        const changedAt = new Map<string, { status: string; atMs: number }>();
        list.forEach((fact, i) => {
          const nowMs = (i + 1) * 1000;
          if (changedAt.get(fact.type)?.status !== fact.status) {
            changedAt.set(fact.type, { status: fact.status, atMs: nowMs });
          }
          const before = structuredClone(conditions);
          const next = setCondition(conditions, fact, { generation: i, nowMs });
          expect(conditions).toEqual(before);
          conditions = next;
          const lastTransitionTime = formatSeconds(changedAt.get(fact.type)?.atMs ?? 0);
          expect(findCondition(conditions, fact.type)).toEqual({
            ...fact,
            observedGeneration: i,
            lastTransitionTime,
          });
        });
        expect(conditions.map(({ type }) => type).sort()).toEqual([...changedAt.keys()].sort());
      }),
    );
  });
});

describe('the comparison of statuses', () => {
  it('isSameStatus ignores undefined fields and the order of keys and conditions', () => {
    const a = { x: 1, y: undefined, conditions: [{ type: 'A' }, { type: 'B', z: 1 }] };
    const b = { conditions: [{ z: 1, type: 'B' }, { type: 'A' }], x: 1 };
    expect(isSameStatus(a, b)).toBe(true);
    expect(isSameStatus(undefined, {})).toBe(true);
    expect(isSameStatus(a, { ...b, x: 2 })).toBe(false);
    expect(isSameStatus({ list: [1, 2] }, { list: [2, 1] })).toBe(false);
  });
});

describe('times and lines', () => {
  it('a MicroTime has six fraction digits', () => {
    expect(formatMicroTime(Date.parse('2026-01-02T03:04:05.006Z'))).toBe('2026-01-02T03:04:05.006000Z');
  });

  it('splitLines yields whole lines, wherever the chunks of the stream end', async () => {
    const line = fc.string({ unit: 'grapheme' }).filter((text) => text.trim() !== '' && !text.includes('\n'));
    await fc.assert(
      fc.asyncProperty(fc.array(line), fc.integer({ min: 1, max: 7 }), async (lines, size) => {
        const bytes = new TextEncoder().encode(lines.map((text) => `${text}\n`).join(''));
        async function* pieces(): AsyncGenerator<Uint8Array> {
          for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
        }
        const got: string[] = [];
        for await (const text of splitLines(pieces())) got.push(text);
        expect(got).toEqual(lines);
      }),
    );
  });
});

function formatSeconds(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}
