// One monitor at the API during one pass: reads it, changes it step by step, and keeps its version for the next step.

import { ApiProblem, isGone } from '../../../client/api-problem.ts';
import type { RestClient } from '../../../client/rest-client.ts';
import { formatEtag } from '../../../contract/fields/headers.ts';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import type { Monitor } from '../../../contract/resources/monitor.ts';
import { contentHash } from '../../resources/content-hash.ts';
import type { MonitorStep } from './monitor-plan.ts';

export interface MonitorReference {
  projectId: string;
  monitorId: string;
  /** Of the object, for idempotency keys. */
  uid: string;
  signal?: AbortSignal;
}

type Jurisdiction = Monitor['jurisdiction'];

export class MonitorHandle {
  readonly #api: RestClient;
  readonly #name: MonitorReference;
  #record: Monitor | undefined;
  /** Of an inline binding, when one was issued in this pass: shown once. */
  signingSecret: string | undefined;

  constructor(api: RestClient, name: MonitorReference) {
    this.#api = api;
    this.#name = name;
  }

  /** As last read or changed. Throws a RangeError before `read` found one. */
  get record(): Monitor {
    if (this.#record === undefined) throw new RangeError(`The monitor ${this.#name.monitorId} was not read.`);
    return this.#record;
  }

  /** Undefined if there is none in the project. `jurisdiction` is asked for only where the id is ambiguous. */
  async read(jurisdiction?: Jurisdiction): Promise<Monitor | undefined> {
    try {
      this.#record = await this.#get(this.#record?.jurisdiction);
    } catch (error) {
      if (isGone(error)) return undefined;
      const isAmbiguous = error instanceof ApiProblem && error.status === 409 && this.#record === undefined;
      if (!isAmbiguous || jurisdiction === undefined) throw error;
      this.#record = await this.#get(jurisdiction);
    }
    return this.#record;
  }

  /**
   * Makes the monitor. A duplicate of an earlier call whose answer was lost finds what that call made; one that was
   * deleted since is made again.
   */
  async create(body: OperationRequest<'createMonitor'>['body']): Promise<Monitor> {
    const key = `monitor:${this.#name.uid}:${contentHash(body)}`;
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
        return await this.changeLifecycle(step.body);
    }
  }

  async changeLifecycle(body: OperationRequest<'changeMonitorLifecycle'>['body']): Promise<void> {
    const request = { ...this.#target(), body, idempotencyKey: this.#key('lifecycle', body) };
    const { body: record } = await this.#api.call('changeMonitorLifecycle', request, this.#options);
    // A replay is what the first call made; the record may have moved on since.
    this.#record = record;
  }

  /** `rotates`: a new signing secret for an inline binding whose secret nobody has any more. */
  async setBinding(binding: Binding, rotates: boolean): Promise<void> {
    const body = { binding, ...(rotates ? { rotateSigningSecret: true } : {}) };
    const request = { ...this.#target(), body, idempotencyKey: this.#key('binding', body) };
    const { body: result } = await this.#api.call('setMonitorBinding', request, this.#options);
    this.signingSecret = result.signingSecret?.secret ?? this.signingSecret;
    // The answer has no version.
    this.#record = await this.#get(this.record.jurisdiction);
  }

  async delete(): Promise<void> {
    await this.#api.call('deleteMonitor', this.#target(), this.#options);
  }

  async #get(jurisdiction: Jurisdiction | undefined): Promise<Monitor> {
    const request = { params: { monitorId: this.#name.monitorId }, query: { jurisdiction } };
    const { body } = await this.#api.call('getMonitor', request, this.#options);
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
    const { projectId, uid, signal } = this.#name;
    return { project: projectId, correlationId: `monitor/${uid}`, signal };
  }

  #target() {
    const { jurisdiction, configurationVersion } = this.record;
    return {
      params: { monitorId: this.#name.monitorId },
      query: { jurisdiction },
      ifMatch: formatEtag('configuration', configurationVersion),
    };
  }

  /** The same for a call whose answer was lost, another one once the monitor has changed or is another one. */
  #key(call: string, body: object): string {
    const { uid, monitorId } = this.#name;
    return `${call}:${uid}:${this.record.configurationVersion}:${contentHash({ monitorId, body })}`;
  }
}
