// Configuration of the role `operator`, and of the chart's hooks, which need the cluster alone.
import { z } from 'zod';
import * as shared from './shared-settings.ts';
import { baseUrl, integer, list, optional, text, variable } from './variable.ts';

const kubeconfig = () =>
  optional(
    { name: 'KUBECONFIG', description: "Kubeconfig file. Default: the pod's own service account." },
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
  watchNamespaces: variable(
    {
      name: 'BEATKEEPER_WATCH_NAMESPACES',
      description: 'Namespaces to watch, with commas; all by default.',
      fallback: '',
    },
    list,
  ),
  defaultCallbackNamespaces: variable(
    {
      name: 'BEATKEEPER_DEFAULT_CALLBACK_NAMESPACES',
      description:
        'Namespaces, with commas, whose Callbacks may be the default of the organization. Default: its own.',
      fallback: '',
    },
    list,
  ),
  namespace: variable(
    { name: 'POD_NAMESPACE', description: "The operator's own namespace.", fallback: 'default' },
    text,
  ),
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

export type OperatorConfig = Readonly<z.infer<typeof operatorSchema>>;

export const clusterSchema = z.object({ kubeconfig: kubeconfig(), logLevel: shared.logLevel() });
