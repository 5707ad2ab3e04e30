// Which ResourceQuota leaves no room for a pod of a Job (docs/contract/kubernetes.md, "Causes"). Pure.
import type { QuotaObject } from './cause-objects.ts';
import type { PodNeeds } from './pod-needs.ts';
import { thousandths } from './quantity.ts';

/** The first one by name. */
export function exhaustedQuota(quotas: readonly QuotaObject[], needs: PodNeeds): QuotaObject | undefined {
  const byName = (a: QuotaObject, b: QuotaObject) => (a.metadata.name < b.metadata.name ? -1 : 1);
  return quotas.filter((quota) => isExhausted(quota, needs)).sort(byName)[0];
}

function isExhausted({ spec, status }: QuotaObject, needs: PodNeeds): boolean {
  // It counts some pods only, and which ones depends on more than the template says.
  if ((spec?.scopes?.length ?? 0) > 0 || spec?.scopeSelector !== undefined) return false;
  return Object.entries(status?.hard ?? {}).some(([resource, text]) => {
    const need = needOf(resource, needs);
    const hard = thousandths(text);
    if (need === undefined || hard === undefined) return false;
    const used = thousandths(status?.used?.[resource]) ?? 0;
    return need === 'unstated' ? used >= hard : need > 0 && used + need > hard;
  });
}

/** Of these a LimitRange may give to a pod what its template does not state. */
const GIVEN: ReadonlySet<string> = new Set(['cpu', 'memory', 'ephemeral-storage']);

/** How much of a counted resource the pod takes; `unstated`: nobody knows, and some; undefined: nothing. */
function needOf(resource: string, needs: PodNeeds): number | 'unstated' | undefined {
  if (resource === 'pods' || resource === 'count/pods') return 1000;
  const [, kind = 'requests', name = ''] = /^(?:(requests|limits)\.)?(.+)$/.exec(resource) ?? [];
  const need = needs[`${kind}.${name}`];
  // `services` and `requests.storage` (of claims) are asked for by no template.
  return need ?? (GIVEN.has(name) ? 'unstated' : undefined);
}
