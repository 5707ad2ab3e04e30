// One monitor at the API during one pass: reads and changes it, and keeps its version for the next call.
import { ApiProblem, isGone } from '../../../client/api-problem.ts';
import type { RestClient } from '../../../client/rest-client.ts';
import { formatEtag } from '../../../contract/fields/headers.ts';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import type { Monitor } from '../../../contract/resources/monitor.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';
import type { ObjectMemory } from '../../known/object-cache.ts';
import { contentHash } from '../../pass/desired-hash.ts';
import type { ExternalRef } from '../../pass/kind.ts';
import type { MonitorStatusFields } from './monitor-object.ts';
import type { MonitorStep } from './monitor-plan.ts';

type Jurisdiction = Monitor['jurisdiction'];
/** As the status shows it; undefined: none. */
export interface RuleOutcomes {
  appliedRules: MonitorStatusFields['appliedRules'] | undefined;
  refusedRules: MonitorStatusFields['refusedRules'] | undefined;
}
/** Of a monitor whose object states none. */
const DEFAULT: Jurisdiction = 'unrestricted';

export class ExternalMonitor {
  readonly #api: RestClient;
  readonly #ref: ExternalRef;
  #record: Monitor | undefined;
  /** When the last read began, ms of the process's clock. */
  readAtMs = 0;
  /** When the last read was answered, by the clock of the API. */
  readDateMs: number = Number.NaN;
  /** The status that this pass relies on; undefined: the one in the cache. */
  latest: CachedMonitorStatus | undefined;
  /** The signing secret of an inline binding, if this pass issued one: the API shows it once. */
  signingSecret: string | undefined;
  /** A signing secret, which the API does not show, was rotated through the API. */
  isRotatedElsewhere: boolean = false;
  /** What became of the Rules; undefined: this pass has not looked. */
  ruleOutcomes: RuleOutcomes | undefined;
  /** This pass archived the monitor. */
  isArchived: boolean = false;

  constructor(api: RestClient, ref: ExternalRef) {
    this.#api = api;
    this.#ref = ref;
  }

  /** As last read or changed; undefined before a read found it. */
  get found(): Monitor | undefined {
    return this.#record;
  }

  /** Like `found`, but throws a RangeError if it is undefined. */
  get record(): Monitor {
    if (this.#record === undefined) throw new RangeError(`The monitor ${this.#ref.id} was not read.`);
    return this.#record;
  }

  /** The version of the configuration, and a hash of everything that the API shows of it. */
  get visible(): { configurationVersion: number; hash: string } {
    // A window that is over goes without a new version, and so does who beats it.
    const { status: _status, maintenance: _window, updatedAt: _at, ...record } = this.record;
    const { configurationVersion, origin, beatenBy: _operator, ...shown } = record;
    // That an object is gone or there again, or has set more fields, is no new version.
    const { orphanedAt: _orphanedAt, ownedFields: _owned, ...declared } = origin ?? {};
    return { configurationVersion, hash: contentHash({ ...shown, origin: declared }) };
  }

  /** True if the version is the next one and nothing visible differs: a signing secret was rotated. */
  isRotatedSince(seen: ObjectMemory['seen']): boolean {
    const { configurationVersion, hash } = this.visible;
    return seen?.configurationVersion === configurationVersion - 1 && seen.hash === hash;
  }

  /**
   * Undefined if the project has no such monitor. `jurisdiction` is used only if the id is ambiguous, or while the database of
   * another jurisdiction is away, which may have the id too.
   */
  async read(jurisdiction?: Jurisdiction): Promise<Monitor | undefined> {
    this.readAtMs = performance.now();
    try {
      this.#record = await this.#get(this.#record?.jurisdiction);
    } catch (error) {
      if (isGone(error)) return undefined;
      const wanted = this.#record === undefined ? jurisdictionAfter(error, jurisdiction) : undefined;
      if (wanted === undefined) throw error;
      return await this.#readIn(wanted);
    }
    return this.#record;
  }

  async #readIn(jurisdiction: Jurisdiction): Promise<Monitor | undefined> {
    try {
      this.#record = await this.#get(jurisdiction);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
    return this.#record;
  }

  /**
   * Creates the monitor. If the answer of an earlier call was lost, this call gets it replayed; a monitor that was deleted
   * since is created again.
   */
  async create(body: OperationRequest<'createMonitor'>['body']): Promise<Monitor> {
    const key = `monitor:${this.#ref.uid}:${contentHash(body)}`;
    const first = await this.#create(body, key);
    if (!first.replayed) return first;
    const found = await this.read(body.jurisdiction);
    return found ?? (await this.#create(body, `${key}:${crypto.randomUUID()}`));
  }

  async run(step: MonitorStep): Promise<void> {
    switch (step.call) {
      case 'patch':
        return await this.#patch(step.patch);
      case 'binding':
        return await this.setBinding(step.binding, false);
      case 'lifecycle':
        await this.changeLifecycle(step.body);
        this.isArchived ||= step.body.action === 'archive';
    }
  }

  async changeLifecycle(body: OperationRequest<'changeMonitorLifecycle'>['body']): Promise<void> {
    const request = { ...this.#target(), body, idempotencyKey: this.#key('lifecycle', body) };
    const { body: record } = await this.#api.call('changeMonitorLifecycle', request, this.#options);
    // A replay shows the record after the first call; it may have changed since.
    this.#record = record;
  }

  /** `rotates`: issues a new signing secret for an inline binding whose secret is lost. */
  async setBinding(binding: Binding, rotates: boolean): Promise<void> {
    const body = { binding, ...(rotates ? { rotateSigningSecret: true } : {}) };
    const request = { ...this.#target(), body, idempotencyKey: this.#key('binding', body) };
    const { body: result } = await this.#api.call('setMonitorBinding', request, this.#options);
    this.signingSecret = result.signingSecret?.secret ?? this.signingSecret;
    // The answer does not contain the version.
    this.#record = await this.#get(this.record.jurisdiction);
  }

  /** States the whole result, so that a repeated call is harmless. */
  async setOrigin(origin: OperationRequest<'setMonitorOrigin'>['body']['origin']): Promise<void> {
    const { params, query } = this.#target();
    const { body: record } = await this.#api.call(
      'setMonitorOrigin',
      { params, query, body: { origin } },
      this.#options,
    );
    this.#record = record;
  }

  async setBeatenBy(operatorId: string | undefined): Promise<void> {
    const { jurisdiction } = this.record;
    const params = { monitorId: this.#ref.id };
    const request = { params, query: { jurisdiction }, body: { operatorId: operatorId ?? null } };
    const { body } = await this.#api.call('setMonitorBeatenBy', request, this.#options);
    this.#record = body;
  }

  async delete(): Promise<void> {
    await this.#api.call('deleteMonitor', this.#target(), this.#options);
  }

  async #get(jurisdiction: Jurisdiction | undefined): Promise<Monitor> {
    const request = { params: { monitorId: this.#ref.id }, query: { jurisdiction } };
    const { body, dateMs } = await this.#api.call('getMonitor', request, this.#options);
    this.readDateMs = dateMs;
    return body;
  }

  async #create(body: OperationRequest<'createMonitor'>['body'], idempotencyKey: string) {
    const { body: created } = await this.#api.call('createMonitor', { body, idempotencyKey }, this.#options);
    this.signingSecret = created.signingSecret?.secret;
    this.#record = created;
    return created;
  }

  async #patch(patch: OperationRequest<'updateMonitor'>['body']['patch']): Promise<void> {
    const request = { ...this.#target(), body: { patch } };
    const { body } = await this.#api.call('updateMonitor', request, this.#options);
    this.#record = body;
  }

  get #options() {
    const { projectId, uid, signal } = this.#ref;
    return { project: projectId, correlationId: `monitor/${uid}`, signal };
  }

  #target() {
    const { jurisdiction, configurationVersion } = this.record;
    return {
      params: { monitorId: this.#ref.id },
      query: { jurisdiction },
      ifMatch: formatEtag('configuration', configurationVersion),
    };
  }

  /** The same key for a repeated call whose answer was lost; another key for another version or another monitor. */
  #key(call: string, body: object): string {
    const { uid, id: monitorId } = this.#ref;
    return `${call}:${uid}:${this.record.configurationVersion}:${contentHash({ monitorId, body })}`;
  }
}

/** Where to look after a read without a jurisdiction has failed. Undefined: nowhere else. */
function jurisdictionAfter(error: unknown, wanted: Jurisdiction | undefined): Jurisdiction | undefined {
  if (!(error instanceof ApiProblem)) return undefined;
  if (error.status === 409) return wanted;
  const isElsewhere = error.jurisdiction !== undefined && error.jurisdiction !== (wanted ?? DEFAULT);
  return isElsewhere ? (wanted ?? DEFAULT) : undefined;
}
