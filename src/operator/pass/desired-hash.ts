// What a refusal is about: it holds until the object wants something else, or its metadata was touched.
import type { KubeObject } from '../../kube/kube-object.ts';
import { contentHash } from '../resources/content-hash.ts';
import { ANNOTATION } from '../resources/names.ts';

/** `hash` is that of what the object wants of the API. */
export function desiredHashOf({ metadata }: KubeObject, hash: string): string {
  const {
    [ANNOTATION.monitorId]: _monitor,
    [ANNOTATION.endpointId]: _endpoint,
    ...annotations
  } = metadata.annotations ?? {};
  return contentHash({ hash, annotations, labels: metadata.labels, generation: metadata.generation });
}
