// Names by which the operator marks objects of the cluster (docs/contract/kubernetes.md). Constants only.
/** Owner of every field that the operator applies. */
export const FIELD_MANAGER = 'beatkeeper-operator';

export const ANNOTATION = {
  monitorId: 'beatkeeper.dev/monitor-id',
  endpointId: 'beatkeeper.dev/endpoint-id',
  /** On a namespace: the project of its objects. */
  project: 'beatkeeper.dev/project',
  /** Each new value rotates the signing secret of a Callback once. */
  rotate: 'beatkeeper.dev/rotate',
  /** `"true"`: the object may go although the API is away. */
  forceDelete: 'beatkeeper.dev/force-delete',
} as const;

/** On Secrets, so that people can find them; the operator itself never lists any. */
export const MANAGED_BY_LABEL = { 'app.kubernetes.io/managed-by': 'beatkeeper' } as const;

/** The default of `publishSecretName` is `<name>-beat`, that of `signingSecretName` `<name>-signing`. */
export const SECRET_SUFFIX = { monitor: '-beat', callback: '-signing' } as const;
