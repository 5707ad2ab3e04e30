// Defaults that an object's own name and labels give (docs/contract/kubernetes.md, "Identity", "Schema"). Pure.
import { createHash } from 'node:crypto';
import { MAX_LABELS } from '../../contract/fields/field.ts';
import type { KubeObject } from '../../kube/kube-object.ts';

const MAX_ALIAS = 64;
const MAX_NAME = 160;

/** `metadata.name` with dots as hyphens, cut to 64 with a hash of the whole. */
export function defaultAlias(name: string): string {
  return cutWithHash(name.replaceAll('.', '-'), name, MAX_ALIAS);
}

/** `metadata.name`, cut to what a monitor's name may have. */
export function defaultName(name: string): string {
  return cutWithHash(name, name, MAX_NAME);
}

function cutWithHash(text: string, whole: string, maximum: number): string {
  if (text.length <= maximum) return text;
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, 8);
  return `${text.slice(0, maximum - hash.length - 1)}-${hash}`;
}

/** `metadata.labels` but those of Kubernetes itself; the first 32 by name. */
export function defaultLabels({ metadata }: KubeObject): Record<string, string> {
  const own = Object.entries(metadata.labels ?? {}).filter(([key]) => !isOfKubernetes(key));
  return Object.fromEntries(own.sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_LABELS));
}

function isOfKubernetes(key: string): boolean {
  const prefix = key.includes('/') ? key.slice(0, key.indexOf('/')) : '';
  return prefix === 'kubernetes.io' || prefix.endsWith('.kubernetes.io');
}
