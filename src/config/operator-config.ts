// Configuration of the role `operator`, and of the commands of the chart's hooks, which need the cluster alone.
import { z } from 'zod';
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
      description: 'Namespaces to watch, with commas; all by default.',
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
  tokenFile: variable(
    {
      name: 'BEATKEEPER_TOKEN_FILE',
      description: 'File with a service-account token of audience beatkeeper; read again as it changes.',
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
        'Namespaces, with commas, whose Callbacks may be the default of the organization. Default: its own.',
      fallback: '',
    },
    list,
  ),
  namespace: namespace(),
  leaseName: variable(
    {
      name: 'BEATKEEPER_LEASE_NAME',
      description: 'Name of the Lease by which one replica leads.',
      fallback: 'beatkeeper-operator',
    },
    text,
  ),
  lastBeatPeriodSeconds: variable(
    {
      name: 'BEATKEEPER_LAST_BEAT_PERIOD_SECONDS',
      description: 'A new lastBeatAt alone is written to the status at most this often.',
      fallback: '60',
    },
    integer(1, 86_400),
  ),
  host: shared.host(),
  healthPort: shared.healthPort(),
  logLevel: shared.logLevel(),
});

/** Of the command `crds`. */
export const crdsSchema = z.object({ kubeconfig: kubeconfig(), logLevel: shared.logLevel() });

/** Of the command `finalizers`. */
export const finalizersSchema = z.object({
  kubeconfig: kubeconfig(),
  watchNamespaces: watchNamespaces(),
  namespace: namespace(),
  operatorDeployment: optional(
    {
      name: 'BEATKEEPER_OPERATOR_DEPLOYMENT',
      description:
        'Deployment that is scaled to nothing first: a running operator would put its finalizers back.',
    },
    text,
  ),
  operatorSelector: optional(
    {
      name: 'BEATKEEPER_OPERATOR_SELECTOR',
      description: "Labels of that Deployment's pods, whose end is awaited.",
    },
    text,
  ),
  logLevel: shared.logLevel(),
});
