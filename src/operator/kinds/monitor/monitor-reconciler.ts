// Reconciles one Monitor: what is there, what it wants, the difference, the status. Level-based: why it is called
// does not matter. Where nothing has changed it reads nothing of the API and writes nothing.

import { isDeepStrictEqual } from 'node:util';
import { FINALIZER } from '../../../contract/crd/custom-resources.ts';
import { findCondition } from '../../../kube/conditions.ts';
import type { ReconcileResult } from '../../../kube/controller.ts';
import { hasFinalizer } from '../../../kube/kube-object.ts';
import type { ObjectStore } from '../../../kube/object-store.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';
import { type ObjectMemories, type ObjectMemory, refusedFault } from '../../known/object-memory.ts';
import {
  type OperatorContext,
  readProjectName,
  resyncAfterMs,
  resyncPeriodMs,
} from '../../operator-context.ts';
import { claimObject } from '../../pass/claim-object.ts';
import { requireHeld } from '../../pass/conflicting-claims.ts';
import { desiredHashOf } from '../../pass/desired-hash.ts';
import type { ObjectKind, ObjectPass } from '../../pass/reconcile-object.ts';
import { type FaultDisplay, faultConditions } from '../../pass/settle-fault.ts';
import { contentHash, parseSpecHash } from '../../resources/content-hash.ts';
import { monitorIdOf } from '../../resources/identity.ts';
import { ANNOTATION } from '../../resources/names.ts';
import { problemText } from '../../resources/problem-text.ts';
import { bindingOf } from './display.ts';
import { monitorReady, syncedCondition } from './monitor-conditions.ts';
import { finalizeMonitor } from './monitor-deletion.ts';
import { MONITORS, type MonitorObject } from './monitor-object.ts';
import { isMonitorSecretIntact } from './monitor-secret.ts';
import { writeMonitorStatus } from './monitor-status-writer.ts';
import { type MonitorPass, syncMonitor } from './monitor-sync.ts';
import { ownedMonitorFields } from './owned-fields.ts';
import { type WantedMonitor, wantedMonitor } from './wanted-monitor.ts';

export class MonitorReconciler implements ObjectKind<MonitorObject, MonitorPass> {
  readonly store: ObjectStore<MonitorObject>;
  readonly memories: ObjectMemories<MonitorObject>;
  readonly #context: OperatorContext;

  constructor(context: OperatorContext) {
    this.#context = context;
    this.store = context.monitors;
    this.memories = context.monitorMemories;
  }

  begin(pass: ObjectPass<MonitorObject>): MonitorPass {
    return { ...pass, fields: {} };
  }

  async finalize({ object, signal }: MonitorPass): Promise<void> {
    await finalizeMonitor(this.#context, object, signal);
  }

  async run(pass: MonitorPass): Promise<ReconcileResult> {
    const context = this.#context;
    const monitorId = monitorIdOf(pass.object);
    const claim = { store: this.store, object: pass.object, id: monitorId };
    requireHeld(context, claim, ANNOTATION.monitorId);
    const projectId = await context.projects.ensure(await readProjectName(context, pass.object));
    const wanted = wantedMonitor(pass.object, { monitorId, projectId, alias: this.#alias(pass.object) });
    // A window that is over is wished no more: one that the API, by its own clock, refused a moment ago.
    const ownedFields = ownedMonitorFields(wanted, Date.now());
    pass.desiredHash = desiredHashOf(pass.object, contentHash([wanted.hash, ownedFields]));
    if (refusedFault(pass.memory, pass.desiredHash, performance.now()))
      return await this.#refresh(pass, { wanted });
    const live = context.statusCache.get(projectId, monitorId);
    if (live !== undefined && (await this.#isAsWanted(pass, wanted, live))) {
      return await this.#refresh(pass, { wanted, live });
    }
    const mark = { annotation: ANNOTATION.monitorId, id: monitorId };
    pass.object = await claimObject(context.kube, MONITORS, pass.object, mark);
    await syncMonitor(context, pass, wanted);
    pass.memory.refusal = undefined;
    return await this.#settle(pass, wanted);
  }

  display(pass: MonitorPass): FaultDisplay {
    const context = this.#context;
    const { object } = pass;
    const projectId = pass.fields.projectId ?? object.status?.projectId;
    const monitorId = pass.fields.monitorId ?? object.status?.monitorId;
    return {
      ...{ projectId, resyncMs: this.#resyncMs },
      explain: (problem) => ({ reason: 'Refused', message: problemText(problem) }),
      async show(conditions, isObserved) {
        const isHad = projectId !== undefined && monitorId !== undefined;
        const live = isHad ? context.statusCache.get(projectId, monitorId) : undefined;
        await writeMonitorStatus(context, pass, { live, conditions, isObserved });
      },
    };
  }

  #callbackOf({ metadata, spec }: MonitorObject) {
    const name = spec.callback?.callbackRef?.name;
    return name === undefined ? undefined : this.#context.callbacks.get(`${metadata.namespace}/${name}`);
  }

  #alias(object: MonitorObject): string | undefined {
    const callback = this.#callbackOf(object);
    return callback?.status?.alias ?? callback?.spec.alias;
  }

  /** True where status, feed and Secret say that nothing is to be done. */
  async #isAsWanted(
    { object, memory }: MonitorPass,
    wanted: WantedMonitor,
    live: CachedMonitorStatus,
  ): Promise<boolean> {
    const { status, metadata } = object;
    if (!hasFinalizer(object, FINALIZER)) return false;
    if (metadata.annotations?.[ANNOTATION.monitorId] !== wanted.monitorId) return false;
    if (status?.monitorId !== wanted.monitorId || status.projectId !== wanted.projectId) return false;
    if (parseSpecHash(status.specHash).wanted !== wanted.hash) return false;
    if (!isDeepStrictEqual(status.ownedFields, ownedMonitorFields(wanted, Date.now()))) return false;
    if (status.configurationVersion !== live.configurationVersion) return false;
    // A pass that failed has shown the version of what it could not change.
    if (findCondition(status.conditions, 'Synced')?.status !== 'True') return false;
    if (this.#isWindowDue(wanted, live)) return false;
    return await this.#isSecretRight(object, memory, wanted);
  }

  /** A window of the spec that the monitor does not have: for example since it was paused when the spec came. */
  #isWindowDue({ spec }: WantedMonitor, live: CachedMonitorStatus): boolean {
    const isAhead = spec.maintenance !== undefined && Date.parse(spec.maintenance.endsAt) > Date.now();
    return isAhead && live.lifecycle === 'active' && live.status.maintenance === undefined;
  }

  async #isSecretRight(object: MonitorObject, memory: ObjectMemory, wanted: WantedMonitor): Promise<boolean> {
    if (object.status?.publishSecretRef?.name !== wanted.secretName) return false;
    const { secretCheckedAtMs } = memory;
    // As long as the next look by itself is away, less its scatter: beats, which come sooner, read no Secret.
    const freshMs = resyncPeriodMs(this.#context, this.#context.monitors.size) * 0.8;
    if (secretCheckedAtMs !== undefined && performance.now() - secretCheckedAtMs < freshMs) return true;
    if (!(await isMonitorSecretIntact(this.#context, object, wanted.secretName))) return false;
    memory.secretCheckedAtMs = performance.now();
    return true;
  }

  /** The status from what was just read of the API. */
  async #settle(pass: MonitorPass, wanted: WantedMonitor): Promise<ReconcileResult> {
    const { record, readAtMs = performance.now() } = pass;
    if (record === undefined) throw new RangeError('The pass has read no monitor.');
    const { lifecycle, configurationVersion, status } = record;
    const live = { lifecycle, configurationVersion, status, atMs: readAtMs };
    this.#context.statusCache.put(wanted.projectId, wanted.monitorId, live);
    return await this.#write(pass, { wanted, live });
  }

  /** The status from what was last heard of the monitor; where it is refused, with the API's words as they are. */
  async #refresh(
    pass: MonitorPass,
    { wanted, live }: { wanted: WantedMonitor; live?: CachedMonitorStatus },
  ): Promise<ReconcileResult> {
    const { refusal } = pass.memory;
    if (live !== undefined) return await this.#write(pass, { wanted, live });
    const { monitorId, projectId } = wanted;
    const isHad = pass.object.status?.monitorId === monitorId;
    const conditions = refusal ? faultConditions(refusal.fault) : [];
    const known = isHad ? this.#context.statusCache.get(projectId, monitorId) : undefined;
    const waitMs = await writeMonitorStatus(this.#context, pass, { live: known, conditions });
    return { requeueAfterMs: Math.min(waitMs, this.#resyncMs) };
  }

  async #write(
    pass: MonitorPass,
    { wanted, live }: { wanted: WantedMonitor; live: CachedMonitorStatus },
  ): Promise<ReconcileResult> {
    const conditions = [syncedCondition(), await this.#ready(pass, wanted, live)];
    const waitMs = await writeMonitorStatus(this.#context, pass, { live, conditions });
    return { requeueAfterMs: Math.min(waitMs, this.#resyncMs) };
  }

  async #ready(pass: MonitorPass, wanted: WantedMonitor, { lifecycle }: CachedMonitorStatus) {
    const { object, record } = pass;
    if (lifecycle === 'archived') return monitorReady({ lifecycle, binding: undefined });
    const { projectId, monitorId } = wanted;
    const binding = record?.callback ?? wanted.binding ?? bindingOf(object.status?.display?.callback);
    const { jurisdiction } = record ?? wanted.spec;
    const state = await this.#context.bindings.find({ projectId, monitorId, jurisdiction, binding });
    const name = object.spec.callback?.callbackRef?.name;
    const callback = this.#callbackOf(object);
    const endpointId = callback?.status?.endpointId;
    return monitorReady({
      lifecycle,
      binding: state,
      ...(name ? { callbackRef: { name, endpointId, isMissing: callback === undefined } } : {}),
    });
  }

  get #resyncMs(): number {
    return resyncAfterMs(this.#context, this.#context.monitors.size);
  }
}
