// One callback endpoint at the API during one pass: reads and changes it, and keeps its version for the next call.
import { isGone } from '../../../client/api-problem.ts';
import type { RestClient } from '../../../client/rest-client.ts';
import { formatEtag } from '../../../contract/fields/headers.ts';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { CallbackEndpoint, SigningSecret } from '../../../contract/resources/callback.ts';
import { contentHash } from '../../pass/desired-hash.ts';
import type { ExternalRef } from '../../pass/kind.ts';
import type { DefaultRank, LastRotation } from './callback-object.ts';

export class ExternalCallback {
  readonly #api: RestClient;
  readonly #ref: ExternalRef;
  #endpoint: CallbackEndpoint | undefined;
  /** This pass created the endpoint. */
  isCreated: boolean = false;
  /** The signing secret that this pass issued last: the API shows it once. */
  issued: SigningSecret | undefined;
  /** The requested rotation that this pass has done. */
  lastRotation: LastRotation;
  /** Set when this pass has dealt with the default. */
  rank: DefaultRank | undefined;

  constructor(api: RestClient, ref: ExternalRef) {
    this.#api = api;
    this.#ref = ref;
  }

  get projectId(): string {
    return this.#ref.projectId;
  }

  /** By the clock of the API, which states the times of the endpoint. */
  get nowMs(): number {
    return this.#api.nowMs;
  }

  /** As last read or changed; undefined before a read found it. */
  get found(): CallbackEndpoint | undefined {
    return this.#endpoint;
  }

  /** Like `found`, but throws a RangeError if it is undefined. */
  get endpoint(): CallbackEndpoint {
    if (this.#endpoint === undefined) throw new RangeError(`The endpoint ${this.#ref.id} was not read.`);
    return this.#endpoint;
  }

  /** Undefined if the project has no such endpoint: it was not created yet, or was removed. */
  async read(): Promise<CallbackEndpoint | undefined> {
    try {
      const { body } = await this.#api.call('getCallback', { params: this.#params }, this.#options);
      this.#endpoint = body;
      return body;
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  /**
   * Creates the endpoint. Throws ApiProblem 409 with the path `endpointId` if an endpoint of the id was removed before,
   * with the path `alias` if another endpoint has the alias.
   */
  async create(body: OperationRequest<'createCallback'>['body']): Promise<void> {
    this.isCreated = true;
    const key = `callback:${this.#ref.uid}:${contentHash(body)}`;
    if (!(await this.#create(body, key))) return;
    // The endpoint of the earlier call may be gone by now. Its secret is lost in any case.
    if ((await this.read()) === undefined) await this.#create(body, `${key}:${crypto.randomUUID()}`);
  }

  async update(body: OperationRequest<'updateCallback'>['body']): Promise<void> {
    const { uid, id: endpointId } = this.#ref;
    const idempotencyKey = `update:${uid}:${this.endpoint.generation}:${contentHash({ endpointId, body })}`;
    const request = { ...this.#target(), body, idempotencyKey };
    const { body: endpoint } = await this.#api.call('updateCallback', request, this.#options);
    this.#endpoint = endpoint;
  }

  /** Rotates once for each `cause`. After a replay, which does not show the secret, `issued` is undefined. */
  async rotate(cause: string, overlapSeconds: number): Promise<void> {
    const { uid, id: endpointId } = this.#ref;
    const idempotencyKey = `rotate:${uid}:${contentHash({ endpointId, cause, overlapSeconds })}`;
    const request = { ...this.#target(), body: { overlapSeconds }, idempotencyKey };
    const { body } = await this.#api.call('rotateSigningSecret', request, this.#options);
    this.issued = body.signingSecret;
    this.#endpoint = body.endpoint;
    // A replay shows the endpoint after the first call.
    if (body.replayed) await this.read();
  }

  /** States the whole result, so that a repeated call is harmless. */
  async setOrigin(origin: OperationRequest<'setCallbackOrigin'>['body']['origin']): Promise<void> {
    const request = { params: this.#params, body: { origin } };
    const { body: endpoint } = await this.#api.call('setCallbackOrigin', request, this.#options);
    this.#endpoint = endpoint;
  }

  async remove(): Promise<void> {
    await this.#api.call('deleteCallback', this.#target(), this.#options);
  }

  async #create(body: OperationRequest<'createCallback'>['body'], idempotencyKey: string): Promise<boolean> {
    const { body: created } = await this.#api.call('createCallback', { body, idempotencyKey }, this.#options);
    this.issued = created.signingSecret;
    this.#endpoint = created.endpoint;
    return created.replayed;
  }

  get #params() {
    return { endpointId: this.#ref.id };
  }

  get #options() {
    const { projectId, uid, signal } = this.#ref;
    return { project: projectId, correlationId: `callback/${uid}`, signal };
  }

  #target() {
    return { params: this.#params, ifMatch: formatEtag('callback-endpoint', this.endpoint.generation) };
  }
}
