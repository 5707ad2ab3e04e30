// The whole role `operator` in the process of a test: with its lease and its readiness, and without the end of the process.
import { Registry } from 'prom-client';
import { type OperatorSettings, startOperator } from '../../src/operator/start-operator.ts';
import { Readiness } from '../../src/telemetry/readiness.ts';
import { collectLines, type LogLines } from './log-lines.ts';

export interface RoleOperator extends LogLines {
  registry: Registry;
  readiness: Readiness;
  /** Resolves when it has lost the lease and has ended its work. */
  lost: Promise<void>;
  close(): Promise<void>;
}

export async function startRoleOperator(
  settings: Pick<OperatorSettings, 'apiUrl' | 'tokenFile' | 'kubeconfig' | 'namespace'> &
    Partial<OperatorSettings>,
): Promise<RoleOperator> {
  const said = collectLines();
  const registry = new Registry();
  const readiness = new Readiness(said.log);
  const lost = Promise.withResolvers<void>();
  const { close } = await startOperator(
    {
      ...{
        watchNamespaces: [settings.namespace],
        defaultCallbackNamespaces: [],
        leaseName: 'beatkeeper-operator',
      },
      ...{
        lastBeatPeriodSeconds: 60,
        orphans: 'Keep',
        monitorMetricsMax: 0,
        workloads: false,
        workloadLogs: false,
      },
      ...settings,
    },
    { log: said.log, registry, readiness },
    { onLost: lost.resolve, resyncMs: 1500 },
  );
  return { ...said, registry, readiness, lost: lost.promise, close };
}
