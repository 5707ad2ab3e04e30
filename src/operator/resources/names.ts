// The names by which the operator marks objects of the cluster (docs/contract/kubernetes.md).
import { PROJECT_ANNOTATION, REPLAY_ANNOTATION } from '../../contract/crd/custom-resources.ts';

/** The field manager of every field that the operator applies. */
export const FIELD_MANAGER = 'beatkeeper-operator';

export const ANNOTATION = {
  monitorId: 'beatkeeper.dev/monitor-id',
  endpointId: 'beatkeeper.dev/endpoint-id',
  /** On a CronJob: `"true"` makes a Monitor of it, `"false"` none, whatever its namespace says. */
  monitor: 'beatkeeper.dev/monitor',
  /** On a CronJob: what its Monitor has in its spec. */
  graceSeconds: 'beatkeeper.dev/grace-seconds',
  callback: 'beatkeeper.dev/callback',
  deletionPolicy: 'beatkeeper.dev/deletion-policy',
  /** On a Monitor: the operator has made it, for the CronJob that owns it. */
  madeFor: 'beatkeeper.dev/made-for',
  /** On a namespace: the name of the project of its objects. */
  project: PROJECT_ANNOTATION,
  /** On a namespace: maintenance schedules of all of its Monitors, a list in JSON. */
  maintenance: 'beatkeeper.dev/maintenance',
  /** Each new value rotates the signing secret of a Callback once. */
  rotate: 'beatkeeper.dev/rotate',
  /** Each new value replays a Rule with `rollout: Replay` once more. */
  replay: REPLAY_ANNOTATION,
  /** `"true"`: the object is released even if the API is away. */
  forceDelete: 'beatkeeper.dev/force-delete',
} as const;

/** On a namespace, `"true"`: each CronJob of it has a Monitor. */
export const MONITOR_CRON_JOBS_LABEL = 'beatkeeper.dev/monitor-cronjobs';

/** On Secrets, for people who search for them; the operator never lists Secrets. */
export const MANAGED_BY_LABEL = { 'app.kubernetes.io/managed-by': 'beatkeeper' } as const;

/** `publishSecretName` defaults to `<name>-beat`, `signingSecretName` to `<name>-signing`. */
export const SECRET_SUFFIX = { monitor: '-beat', callback: '-signing' } as const;
