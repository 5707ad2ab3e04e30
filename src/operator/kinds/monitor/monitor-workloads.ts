// The workload of a Monitor in its pass: what it gives, who sends the beats, and what the status says of it.
import type { NamedCause } from '../../../domain/operator-cause.ts';
import type { ConditionFacts } from '../../../kube/conditions.ts';
import { isForbidden } from '../../../kube/kube-error.ts';
import { objectKey } from '../../../kube/kube-object.ts';
import type { OperatorContext } from '../../operator-context.ts';
import type { ReportedRuns } from '../../workloads/run-facts.ts';
import { causeText, workloadCondition } from '../../workloads/workload-condition.ts';
import { runsKeyOf, type Workload } from '../../workloads/workload-of.ts';
import type { Report } from '../../workloads/workload-reports.ts';
import type { DesiredMonitor } from './desired-monitor.ts';
import type { ExternalMonitor } from './external-monitor.ts';
import type { MonitorObject } from './monitor-object.ts';

type Context = Pick<OperatorContext, 'workloads' | 'operatorName'>;

export class MonitorWorkloads {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Throws KubeError. */
  async find(object: MonitorObject): Promise<{ workload?: Workload; beatenBy?: string }> {
    const { workloadRef: ref } = object.spec;
    if (ref === undefined) return {};
    const { workloads, operatorName } = this.#context;
    if (workloads === undefined) return { workload: { ref, object: undefined, isEnabled: false } };
    const workload = await workloads.directory.find(object);
    const found = workload === undefined ? {} : { workload };
    return runsKeyOf(object) === undefined ? found : { ...found, beatenBy: await operatorName.id() };
  }

  /** The operator of another cluster that beats the monitor is left to it, unless this one does. Throws ApiProblem. */
  async keepBeatenBy({ beatenBy }: DesiredMonitor, external: ExternalMonitor): Promise<void> {
    const { beatenBy: current } = external.record;
    if (current === beatenBy) return;
    if (beatenBy === undefined && !(await this.#isOwn(current))) return;
    await external.setBeatenBy(beatenBy);
  }

  /** This operator beats the monitor no more. Throws ApiProblem. */
  async giveUp(external: ExternalMonitor): Promise<void> {
    const { beatenBy } = external.record;
    if (await this.#isOwn(beatenBy)) await external.setBeatenBy(undefined);
  }

  /** An operator that has no name beats nothing. */
  async #isOwn(operatorId: string | undefined): Promise<boolean> {
    if (operatorId === undefined) return false;
    try {
      return operatorId === (await this.#context.operatorName.id());
    } catch (error) {
      if (isForbidden(error)) return false;
      throw error;
    }
  }

  /** Without a condition the pass does not know. */
  statusOf(
    object: MonitorObject,
    desired: DesiredMonitor | undefined,
  ): { condition?: ConditionFacts; reported: ReportedRuns | undefined } {
    const report = this.#reportOf(object);
    const reported = report?.reported;
    if (desired?.workload === undefined) return { reported };
    const faults = { schedule: desired.workloadFault, beat: report?.refusal, cause: this.#causeOf(object) };
    return { condition: workloadCondition(desired.workload, faults), reported };
  }

  /** What keeps the Jobs of the workload from running, as the end of a text; empty where nothing is seen. */
  causeText(object: MonitorObject): string {
    return causeText(this.#causeOf(object));
  }

  #causeOf(object: MonitorObject): NamedCause | undefined {
    return this.#context.workloads?.concerns.get(objectKey(object))?.cause;
  }

  /** A workload that is named no more is remembered until its runs have ended. */
  #reportOf(object: MonitorObject): Report | undefined {
    const { workloads } = this.#context;
    const { workload: reported } = object.status ?? {};
    if (workloads === undefined) return reported && { reported };
    if (runsKeyOf(object) !== undefined) return workloads.reports.of(object);
    if (reported === undefined) return undefined;
    const report = workloads.reports.of(object);
    return report.reported.runs?.some(({ ended }) => ended === undefined) === true ? report : undefined;
  }
}
