// Configuration of the role `operator`, and of the commands `crds`, `finalizers` and `secrets`, which Jobs of
// the chart run.
import { z } from 'zod';
import { sharedProjects } from './shared-projects.ts';
import * as shared from './shared-settings.ts';
import { baseUrl, integer, list, optional, text, variable } from './variable.ts';

const kubeconfig = () =>
  optional(
    { name: 'KUBECONFIG', description: "Kubeconfig file. Default: the pod's own service account." },
    text,
  );

const watchNamespaces = () =>
  variable(
    {
      name: 'BEATKEEPER_WATCH_NAMESPACES',
      description: 'Namespaces to watch, separated by commas. Default: all.',
      fallback: '',
    },
    list,
  );

const namespace = () =>
  variable(
    { name: 'POD_NAMESPACE', description: "The operator's own namespace.", fallback: 'default' },
    text,
  );

export const operatorSchema = z.object({
  apiUrl: variable({ name: 'BEATKEEPER_API_URL', description: 'Address of the role api.' }, baseUrl),
  apiCaFile: optional(
    {
      name: 'BEATKEEPER_API_CA_FILE',
      description:
        'File with the authorities that may certify an https address of the role api; read again when it changes. Default, and while there is no such file: those that Node knows.',
    },
    text,
  ),
  tokenFile: variable(
    {
      name: 'BEATKEEPER_TOKEN_FILE',
      description:
        'File with a service-account token for the audience beatkeeper; read again when it changes.',
      fallback: '/var/run/secrets/beatkeeper/token',
    },
    text,
  ),
  kubeconfig: kubeconfig(),
  watchNamespaces: watchNamespaces(),
  defaultCallbackNamespaces: variable(
    {
      name: 'BEATKEEPER_DEFAULT_CALLBACK_NAMESPACES',
      description:
        "Namespaces, separated by commas, whose Callbacks may be the organization's default. Default: POD_NAMESPACE.",
      fallback: '',
    },
    list,
  ),
  sharedProjects: variable(
    {
      name: 'BEATKEEPER_SHARED_PROJECTS',
      description:
        'JSON array of {project, namespaces}: the namespaces (names with * and ?) that may belong to a project by their annotation. Such a project is for them alone; any other namespace belongs to the project of its own name. Default: every namespace may belong to every project.',
      fallback: '[]',
    },
    sharedProjects,
  ),
  namespace: namespace(),
  leaseName: variable(
    {
      name: 'BEATKEEPER_LEASE_NAME',
      description: 'Name of the Lease for the leader election.',
      fallback: 'beatkeeper-operator',
    },
    text,
  ),
  lastBeatPeriodSeconds: variable(
    {
      name: 'BEATKEEPER_LAST_BEAT_PERIOD_SECONDS',
      description:
        'Shortest time between two status writes that change only lastBeatAt or whether a monitor is late.',
      fallback: '60',
    },
    integer(1, 86_400),
  ),
  orphans: variable(
    {
      name: 'BEATKEEPER_ORPHANS',
      description:
        'What happens to monitors whose object is gone from the cluster: Keep lists and counts them, Archive archives them after an hour.',
      fallback: 'Keep',
    },
    z.enum(['Keep', 'Archive'], 'must be Keep or Archive'),
  ),
  workloads: variable(
    {
      name: 'BEATKEEPER_WORKLOADS',
      description:
        'true: the operator watches CronJobs, Jobs and pods of Jobs, and sends the beats of Monitors with a workloadRef.',
      fallback: 'true',
    },
    z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true'),
  ),
  workloadLogs: variable(
    {
      name: 'BEATKEEPER_WORKLOAD_LOGS',
      description: 'true: the end of the log of a failed container goes into the message of its beat.',
      fallback: 'false',
    },
    z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true'),
  ),
  monitorMetricsMax: variable(
    {
      name: 'BEATKEEPER_MONITOR_METRICS_MAX',
      description: 'How many Monitors have metrics of their own on /metrics of the leader; 0: none.',
      fallback: '20000',
    },
    integer(0, 100_000),
  ),
  host: shared.host(),
  healthPort: shared.healthPort(),
  logLevel: shared.logLevel(),
});

/** Configuration of the command `crds`. */
export const crdsSchema = z.object({ kubeconfig: kubeconfig(), logLevel: shared.logLevel() });

/** Configuration of the command `finalizers`. */
export const finalizersSchema = z.object({
  kubeconfig: kubeconfig(),
  watchNamespaces: watchNamespaces(),
  namespace: namespace(),
  operatorDeployment: optional(
    {
      name: 'BEATKEEPER_OPERATOR_DEPLOYMENT',
      description:
        "The operator's Deployment, scaled to 0 first: a running operator would add its finalizers again.",
    },
    text,
  ),
  operatorSelector: optional(
    {
      name: 'BEATKEEPER_OPERATOR_SELECTOR',
      description: "Labels of that Deployment's pods; the command waits until they are gone.",
    },
    text,
  ),
  leaseName: optional(
    { name: 'BEATKEEPER_LEASE_NAME', description: "The operator's Lease, deleted when its pods are gone." },
    text,
  ),
  logLevel: shared.logLevel(),
});

/** Configuration of the command `secrets`. */
export const secretsSchema = z.object({
  kubeconfig: kubeconfig(),
  namespace: namespace(),
  encryptionSecret: optional(
    {
      name: 'BEATKEEPER_ENCRYPTION_SECRET',
      description: 'Secret that gets an encryption key (`keys`), if there is none of this name.',
    },
    text,
  ),
  databaseSecret: optional(
    {
      name: 'BEATKEEPER_DATABASE_SECRET',
      description:
        'Secret that gets the passwords of the bundled Postgres (`owner-password`, `application-password`), if there is none of this name.',
    },
    text,
  ),
  waitSeconds: variable(
    {
      name: 'BEATKEEPER_SECRETS_WAIT_SECONDS',
      description: 'How long an API server that does not answer or refuses is asked again.',
      fallback: '60',
    },
    integer(0, 3_600),
  ),
  logLevel: shared.logLevel(),
});
