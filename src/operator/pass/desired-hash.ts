// Short hashes of the desired state and of the content of Secrets. Pure.
import { createHash } from 'node:crypto';
import { MANAGED_BY } from '../../contract/crd/custom-resources.ts';
import type { KubeObject } from '../../kube/kube-object.ts';

/** The first `digits` hex digits of the SHA-256 of JSON with sorted keys. Undefined fields do not count. */
export function contentHash(value: unknown, digits = 32): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, digits);
}

function canonical(value: unknown): string {
  const sorted = JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return sorted ?? '';
}

/**
 * Identifies what a refusal is about: the refusal holds until the desired state, the labels, the annotations or the
 * generation change. What the operator itself annotates does not count: `annotation` and its claim.
 */
export function desiredHashOf({ metadata }: KubeObject, annotation: string, desired: unknown): string {
  const { [annotation]: _id, [MANAGED_BY]: _release, ...annotations } = metadata.annotations ?? {};
  return contentHash({ desired, annotations, labels: metadata.labels, generation: metadata.generation });
}

/**
 * `status.specHash`: a hash of the applied state and one of the content of the Secret. The second is 48 bits of a digest
 * of random secrets of 122 bits and more: it shows that a Secret was edited, and reveals nothing else.
 */
export function formatSpecHash(parts: { desired: string; secret: string }): string {
  return `${parts.desired}.${parts.secret}`;
}

/** The parts of `formatSpecHash`; '' for a missing part. */
export function parseSpecHash(text: string | undefined): { desired: string; secret: string } {
  const [desired = '', secret = ''] = (text ?? '').split('.');
  return { desired, secret };
}

/** The hash of a Secret's data for `formatSpecHash`. */
export function secretHash(data: Readonly<Record<string, string>>): string {
  return contentHash(data, 12);
}
