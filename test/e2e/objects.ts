// The objects that the e2e tests apply, and the fields that they read.

/** The fields of a Monitor's status that the tests read. */
export interface MonitorStatus {
  monitorId?: string;
  health?: string;
  lastBeatAt?: string;
  nextDeadlineAt?: string;
  openIncidents?: { incidentId: string; kind: string; state: string; openedAt: string }[];
  conditions?: { type: string; status: string; reason: string; message: string }[];
}

/** The fields of a Monitor that the tests read. */
export interface MonitorObject {
  metadata: { name: string; finalizers?: string[]; deletionTimestamp?: string };
  status?: MonitorStatus;
}

export function restrictedNamespace(name: string): object {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

/** A Secret with these texts. */
export function secret(name: string, namespace: string, stringData: Record<string, string>): object {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, stringData };
}

export function callback(name: string, namespace: string, url: string): object {
  return ours('Callback', name, namespace, { url });
}

export function monitor(name: string, namespace: string, spec: object): object {
  return ours('Monitor', name, namespace, spec);
}

function ours(kind: string, name: string, namespace: string, spec: object): object {
  return { apiVersion: 'beatkeeper.dev/v1alpha1', kind, metadata: { name, namespace }, spec };
}

/** A job as users write it: it reads its address from the Monitor's Secret and beats once. */
export function beatingPod(name: string, namespace: string, image: string, secretName: string): object {
  const script = 'fetch(process.env.BEAT_URL).then((answer) => process.exit(answer.ok ? 0 : 1))';
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'job',
          image,
          imagePullPolicy: 'Never',
          command: ['node', '--eval', script],
          env: [{ name: 'BEAT_URL', valueFrom: { secretKeyRef: { name: secretName, key: 'url' } } }],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
}
