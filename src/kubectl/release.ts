// Which installation of Beatkeeper a command talks to: --release, else the context, else the annotation of the Monitor.
import { MANAGED_BY } from '../contract/crd/custom-resources.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { ApiExtension } from './kubeconfig.ts';
import type { Option } from './option.ts';
import { Refusal } from './refusal.ts';

export interface Release {
  namespace: string;
  /** The chart's fullname: service accounts and Services begin with it. */
  name: string;
}

export const RELEASE_OPTION: Option = {
  name: 'release',
  value: 'namespace/name',
  text: 'the installation; default: the one that manages the object',
};

/** The Service of the chart that leads to the api. */
export function apiServiceOf({ namespace, name }: Release): { namespace: string; name: string } {
  return { namespace, name: `${name}-api` };
}

/** Throws a Refusal if nothing names one, or not in its form. */
export function findRelease(
  stated: string | undefined,
  { release }: ApiExtension,
  objects: readonly KubeObject[],
): Release {
  const annotated = objects.map(({ metadata }) => metadata.annotations?.[MANAGED_BY]).find(Boolean);
  const text = stated ?? release ?? annotated;
  if (text === undefined) {
    throw new Refusal(
      'No Monitor here says which installation manages it: state it with --release <namespace>/<name>, such as beatkeeper/beatkeeper.',
    );
  }
  const [namespace = '', name = '', ...rest] = text.split('/');
  if (![namespace, name].every((part) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part)) || rest.length > 0) {
    throw new Refusal(
      `${text} is no release: state --release <namespace>/<name>, such as beatkeeper/beatkeeper.`,
    );
  }
  return { namespace, name };
}
