// The hooks of the kind Monitor: one monitor at the API for each object, its publish address in a Secret, and its status
// from the status feed.
import { type ApiProblem, isGone, isTaken } from '../../../client/api-problem.ts';
import { MONITOR_PENDING } from '../../../contract/crd/monitor-resource.ts';
import type { Monitor } from '../../../contract/resources/monitor.ts';
import { type ConditionFacts, findCondition } from '../../../kube/conditions.ts';
import { type KubeResource, objectKey } from '../../../kube/kube-object.ts';
import type { StoreIndex } from '../../../kube/object-store.ts';
import { ObjectCache } from '../../known/object-cache.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { DESTINATION_REJECTED } from '../../pass/destination.ts';
import { idOf } from '../../pass/identity.ts';
import type {
  Change,
  Claimant,
  Creation,
  DesireFacts,
  Enqueue,
  ExternalRef,
  Kind,
  KindStatus,
  KnownOrigin,
} from '../../pass/kind.ts';
import { Blocked, type Fault } from '../../pass/object.ts';
import { ObjectEvents } from '../../pass/object-events.ts';
import { isFrom, newOrigin, objectOrigin } from '../../pass/origin.ts';
import { problemText } from '../../resources/problem-text.ts';
import { runsKeyOf } from '../../workloads/workload-of.ts';
import { CALLBACK_IDENTITY, type CallbackObject } from '../callback/callback-object.ts';
import { givenRules } from '../rule/apply/given-rules.ts';
import { type RuleObject, rulesNear } from '../rule/rule-object.ts';
import { applyDependencies } from './apply-dependencies.ts';
import { BeatWrites } from './beat-writes.ts';
import {
  dependencyCondition,
  dependencyKeys,
  refusedKeys,
  wantedDependencies,
} from './dependencies-of-monitor.ts';
import { createMonitorBodyOf, type DesiredMonitor, desiredMonitor } from './desired-monitor.ts';
import { describeIncident, IncidentEnds } from './ended-incidents.ts';
import { ExternalMonitor } from './external-monitor.ts';
import { monitorDestinationFault } from './monitor-destination.ts';
import {
  MONITOR_IDENTITY,
  MONITORS,
  type MonitorObject,
  type MonitorStatusFields,
} from './monitor-object.ts';
import { type MonitorStep, planMonitor } from './monitor-plan.ts';
import { MonitorSecret } from './monitor-secret.ts';
import { bindingOf, incidentChanges, monitorReady, monitorStatusOf } from './monitor-status.ts';
import { watchMonitors } from './monitor-watches.ts';
import type { MonitorPass, MonitorWork } from './monitor-work.ts';
import { MonitorWorkloads } from './monitor-workloads.ts';
import { applyRules, isRetryDue, takeBackRules } from './rules/apply-rules.ts';
import { UnseenRules } from './rules/unseen-rules.ts';

/** Whose Callbacks may make the Monitor ready: those of its project, and the default one. */
function waitsForCallback({ spec, status }: MonitorObject): ('project' | 'default')[] {
  switch (findCondition(status?.conditions, 'Ready')?.reason) {
    case 'NoOrganizationDefault':
      return ['default'];
    case 'CallbackNotFound':
    case 'EndpointDisabled':
    case 'CallbackUnknown':
    case DESTINATION_REJECTED:
      return spec.callback?.kind === 'named' ? ['project'] : ['default', 'project'];
    default:
      return [];
  }
}

type Window = NonNullable<MonitorObject['spec']['maintenance']>;

/** Windows that overlap or touch are shown as one. */
function covers(shown: Window | undefined, { startsAt, endsAt }: Window): boolean {
  if (shown === undefined || Date.parse(shown.startsAt) > Date.parse(startsAt)) return false;
  return Date.parse(shown.endsAt) >= Date.parse(endsAt);
}

const INDEXES: Record<string, StoreIndex<MonitorObject>> = {
  callbackRef: ({ metadata, spec }) => {
    const name = spec.callback?.callbackRef?.name;
    return name === undefined ? [] : [`${metadata.namespace}/${name}`];
  },
  alertsTo: ({ status }) => {
    const binding = bindingOf(status?.display?.callback);
    if (binding.kind === 'organization_default') return ['default'];
    return binding.kind === 'named' ? [binding.alias] : [];
  },
  waitsForCallback,
  dependsOn: dependencyKeys,
  dependencyRefused: refusedKeys,
  workload: (monitor) => [runsKeyOf(monitor) ?? ''].filter((key) => key !== ''),
};

export class MonitorKind implements Kind<MonitorObject, DesiredMonitor, ExternalMonitor> {
  readonly resource: KubeResource<MonitorObject> = MONITORS;
  readonly identity = MONITOR_IDENTITY;
  readonly keptFields = [];
  readonly initialConditions = MONITOR_PENDING;
  readonly concurrency = 8;
  /**
   * Indexes: `callbackRef` and `dependsOn` (`namespace/name`), `dependencyRefused` (a namespace), `alertsTo` (`default`, an alias),
   * `waitsForCallback` (`project`, `default`), `workload` (`namespace/CronJob/name`, of those whose beats the operator sends).
   */
  readonly cache: ObjectCache<MonitorObject>;
  readonly secret: MonitorSecret;
  readonly events: ObjectEvents<'Archived' | 'IncidentOpened' | 'IncidentRecovered' | 'IncidentResolved'>;
  readonly #context: OperatorContext;
  readonly #callbacks: ObjectCache<CallbackObject>;
  readonly #rules: ObjectCache<RuleObject>;
  readonly #unseen: UnseenRules;
  readonly #workloads: MonitorWorkloads;
  readonly #beats: BeatWrites;
  readonly #ends: IncidentEnds;
  #enqueue: Enqueue<MonitorObject> = () => undefined;

  /** The cache of Rules has the indexes of `newRuleCache`. */
  constructor(
    context: OperatorContext,
    callbacks: ObjectCache<CallbackObject>,
    rules: ObjectCache<RuleObject>,
  ) {
    this.#context = context;
    this.#rules = rules;
    this.#unseen = new UnseenRules(context.kube, rules);
    this.#workloads = new MonitorWorkloads(context);
    this.cache = new ObjectCache(MONITOR_IDENTITY, context.settings.release, INDEXES);
    this.#callbacks = callbacks;
    this.#beats = new BeatWrites(context.settings, (key) => {
      const object = this.cache.get(key);
      if (object === undefined) return false;
      this.#enqueue([object], 'low');
      return true;
    });
    this.#ends = new IncidentEnds(context, (object, { reason, note }) =>
      this.events.record(object, reason, note),
    );
    this.secret = new MonitorSecret(context);
    this.events = new ObjectEvents(context, {
      Archived: 'Normal',
      IncidentOpened: 'Warning',
      IncidentRecovered: 'Normal',
      IncidentResolved: 'Normal',
    });
  }

  watch(enqueue: Enqueue<MonitorObject>): void {
    this.#enqueue = enqueue;
    this.cache.subscribe(({ type, object }) => {
      if (type === 'deleted') this.#beats.forget(objectKey(object));
    });
    const caches = { monitors: this.cache, callbacks: this.#callbacks, rules: this.#rules };
    watchMonitors(this.#context, caches, { beats: this.#beats, enqueue });
  }

  async desire(object: MonitorObject, { id, projectId }: DesireFacts): Promise<DesiredMonitor> {
    const facts = { id, projectId: await projectId(), nowMs: this.#context.api.nowMs };
    const callback = this.#callbackOf(object);
    const alias = callback && (await this.#aliasOf(callback, facts.projectId));
    const hasRules = object.status?.appliedRules !== undefined;
    const unseen = hasRules ? await this.#unseen.find(object) : [];
    const rules = givenRules(object, rulesNear(this.#rules, object), unseen);
    const memory = this.cache.memoryOf(object);
    const isDue = isRetryDue({ object, memory }, this.#context.settings.refusalRetryMs);
    const namespace = this.#context.namespaces.get(object.metadata.namespace ?? '');
    const dependencies = wantedDependencies(object, facts.projectId, (key) => this.cache.get(key));
    const near = { alias, rules, namespace, dependencies };
    const known = { ...facts, ...near, ...(await this.#workloads.find(object)) };
    const desired = desiredMonitor(object, { ...known, isRetryDue: isDue });
    const fault = 'fault' in desired.recurring ? desired.recurring.fault : undefined;
    if (fault !== undefined && fault !== memory.maintenanceFault)
      this.events.record(object, 'Refused', fault);
    memory.maintenanceFault = fault;
    return desired;
  }

  connect(ref: ExternalRef): ExternalMonitor {
    return new ExternalMonitor(this.#context.api, ref);
  }

  isUnchanged(work: MonitorWork): boolean {
    const { object, desired, external, memory } = work;
    if (isRetryDue(work, this.#context.settings.refusalRetryMs)) return false;
    // After a restart nobody remembers what was refused.
    const { untilMs = Number.NEGATIVE_INFINITY } = memory.refusedDependencies ?? {};
    if (refusedKeys(object).length > 0 && untilMs <= performance.now()) return false;
    const latest = this.#context.statusCache.get(desired.projectId, desired.id);
    if (latest === undefined || latest.configurationVersion !== object.status?.configurationVersion)
      return false;
    if (!isFrom(latest.origin, object)) return false;
    // A person has taken it from this operator, which is there.
    if (desired.beatenBy !== undefined && latest.beatenBy !== desired.beatenBy) return false;
    // The monitor lacks the window of the spec: for example it was paused when the window was set.
    const isActive = latest.lifecycle === 'active';
    if (isActive && desired.maintenance && !covers(latest.status.maintenance, desired.maintenance))
      return false;
    external.latest = latest;
    return true;
  }

  async observe(external: ExternalMonitor, { spec }: MonitorObject): Promise<boolean> {
    return (await external.read(spec.jurisdiction)) !== undefined;
  }

  async create({ object, desired, external }: MonitorWork, { wasThere, hasOrigin }: Creation): Promise<void> {
    if (wasThere && desired.spec.lifecycle === 'archived') {
      const message =
        'The archived monitor was deleted: set lifecycle to active to create it again, or delete this object.';
      throw new Blocked('Refused', message, 600_000);
    }
    const origin = hasOrigin ? newOrigin('Monitor', object, desired) : undefined;
    await external.create({ ...createMonitorBodyOf(desired), origin });
  }

  isOwnTaken(error: unknown): boolean {
    return isTaken(error, 'monitorId');
  }

  originOf({ record }: ExternalMonitor): KnownOrigin | undefined {
    return record.origin;
  }

  async setOrigin(external: ExternalMonitor, claimant: Claimant<MonitorObject> | undefined): Promise<void> {
    // Nobody but the job beats a monitor that is left to itself.
    if (claimant === undefined) await this.#workloads.giveUp(external);
    await external.setOrigin(claimant === undefined ? null : objectOrigin('Monitor', claimant));
  }

  /** A Monitor that is made again with another jurisdiction, because that cannot change, leaves the archived monitor. */
  canTakeOver({ record }: ExternalMonitor, { spec }: MonitorObject): boolean {
    return record.lifecycle !== 'archived' || !isElsewhere(spec, record);
  }

  async update(work: MonitorWork, change: Change): Promise<string[]> {
    const { desired, external, memory, ownedBefore: owned } = work;
    const { record } = external;
    if (isElsewhere(desired.spec, record)) {
      const message = `The monitor ${record.monitorId} is in the jurisdiction ${record.jurisdiction}, which cannot change: create this object again with that jurisdiction, or name another monitor.`;
      throw new Blocked('Refused', message, 600_000);
    }
    external.isRotatedElsewhere = external.isRotatedSince(memory.seen);
    await takeBackRules(work);
    const plan = planMonitor(desired, { ...change, record: external.record, owned });
    // A monitor that begins to run has its rules by then.
    const start = plan.steps.findIndex(isStart);
    const before = start < 0 ? plan.steps : plan.steps.slice(0, start);
    for (const step of before) await external.run(step);
    const { refusalRetryMs: retryMs } = this.#context.settings;
    const { restored, ...outcomes } = await applyRules(work, { isChanged: change.isChanged, retryMs });
    for (const step of plan.steps.slice(before.length)) await external.run(step);
    external.ruleOutcomes = outcomes;
    work.memory.refusedDependencies = await applyDependencies(external, plan.dependsOn, retryMs);
    return [...plan.fields, ...restored.map((key) => `measurements.${key}`)];
  }

  async complete({ desired, external, memory }: MonitorWork): Promise<void> {
    await this.#workloads.keepBeatenBy(desired, external);
    const { configurationVersion, lifecycle, status, origin, beatenBy } = external.record;
    memory.seen = external.visible;
    const read = { lifecycle, configurationVersion, status, origin, beatenBy, atMs: external.readAtMs };
    external.latest = this.#context.statusCache.put(desired.projectId, desired.id, read);
  }

  recordUpdate({ object, desired, external }: MonitorWork): void {
    if (external.isArchived) this.events.record(object, 'Archived', `Archived the monitor ${desired.id}.`);
  }

  async delete(external: ExternalMonitor, object: MonitorObject): Promise<void> {
    const { monitorId, lifecycle } = external.record;
    if (object.spec.deletionPolicy === 'Delete') {
      await external.delete();
      this.events.record(object, 'Deleted', `Deleted the monitor ${monitorId}.`);
    } else if (lifecycle !== 'archived') {
      await external.changeLifecycle({ action: 'archive' });
      const note = `Archived the monitor ${monitorId}; it can be restored for 30 days.`;
      this.events.record(object, 'Archived', note);
    }
  }

  async conditions(work: MonitorWork): Promise<ConditionFacts[]> {
    const { object, desired, external } = work;
    const { found: record, latest } = external;
    if (latest === undefined) throw new RangeError('The pass has read no status of the monitor.');
    const { lifecycle } = latest;
    if (lifecycle === 'archived') return [monitorReady({ lifecycle, binding: undefined })];
    const { projectId, id: monitorId } = desired;
    const binding = record?.callback ?? desired.binding ?? bindingOf(object.status?.display?.callback);
    const { jurisdiction } = record ?? desired.spec;
    const state = await this.#context.bindings.find({ projectId, monitorId, jurisdiction, binding });
    const ready = monitorReady({ lifecycle, binding: state, callbackRef: this.#callbackRefOf(object) });
    if (ready.status !== 'True') return [ready];
    const fault = monitorDestinationFault(work, {
      ...{ state, callbacks: this.#callbacks },
      periodMs: this.#context.settings.refusalRetryMs,
      checks: this.#context.destinationChecks,
      changed: () => this.#enqueue([object]),
    });
    if (fault !== undefined) return [{ type: 'Ready', status: 'False', ...fault }];
    return [dependencyCondition(desired.dependencies, work.memory.refusedDependencies?.message) ?? ready];
  }

  /** Of the monitor that the pass is about, and never of the one that the status names: that may be another project's. */
  statusOf({ object, desired, external }: MonitorPass): KindStatus {
    const cached = desired && this.#context.statusCache.get(desired.projectId, desired.id);
    const maintenanceFault = desired && 'fault' in desired.recurring ? desired.recurring.fault : undefined;
    const latest = external?.latest ?? cached;
    const { condition: workload, reported } = this.#workloads.statusOf(object, desired);
    const facts = { object, latest, record: external?.found, maintenanceFault, workload };
    const status = monitorStatusOf(facts);
    return { ...status, fields: { ...status.fields, workload: reported, ...external?.ruleOutcomes } };
  }

  holdBack({ object, memory }: MonitorPass, status: MonitorStatusFields): number {
    return this.#beats.holdBack(object, memory, status);
  }

  /** Records incidents that began, and asks how those ended that did: no status waits for that answer. */
  statusWritten({ object, desired, memory }: MonitorPass, before: MonitorStatusFields | undefined): void {
    this.#beats.written(memory);
    const { opened, ended } = incidentChanges(before?.openIncidents, object.status?.openIncidents ?? []);
    for (const incident of opened) {
      const note = `${describeIncident(incident)}${this.#workloads.causeText(object)}`;
      this.events.record(object, 'IncidentOpened', note);
    }
    if (desired !== undefined && ended.length > 0) this.#ends.ask({ object, ref: desired, incidents: ended });
  }

  async stop(graceMs: number): Promise<unknown> {
    return await this.#ends.stop(graceMs);
  }

  explain(problem: ApiProblem): Fault {
    return { reason: 'Refused', message: problemText(problem) };
  }

  #callbackRefOf(object: MonitorObject): Parameters<typeof monitorReady>[0]['callbackRef'] {
    const name = object.spec.callback?.callbackRef?.name;
    if (!name) return undefined;
    const callback = this.#callbackOf(object);
    return { name, endpointId: callback?.status?.endpointId, isMissing: callback === undefined };
  }

  #callbackOf({ metadata, spec }: MonitorObject): CallbackObject | undefined {
    const name = spec.callback?.callbackRef?.name;
    return name === undefined ? undefined : this.#callbacks.get(`${metadata.namespace}/${name}`);
  }

  /** As the API has it, and never as the status says: alerts go where the alias leads. */
  async #aliasOf(callback: CallbackObject, project: string): Promise<string | undefined> {
    const memory = this.#callbacks.memoryOf(callback);
    if (memory.alias !== undefined) return memory.alias;
    const endpointId = idOf(CALLBACK_IDENTITY, callback);
    try {
      const { body } = await this.#context.api.call('getCallback', { params: { endpointId } }, { project });
      memory.alias = body.alias;
      return body.alias;
    } catch (error) {
      if (isGone(error)) return callback.spec.alias;
      throw error;
    }
  }
}

function isStart(step: MonitorStep): boolean {
  return step.call === 'lifecycle' && (step.body.action === 'resume' || step.body.action === 'restore');
}

/** The spec states another jurisdiction than the monitor has. */
function isElsewhere({ jurisdiction }: MonitorObject['spec'], record: Monitor): boolean {
  return jurisdiction !== undefined && jurisdiction !== record.jurisdiction;
}
