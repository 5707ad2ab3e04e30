// One callback endpoint at the API during one pass: reads it, changes it, and keeps its version for the next step.
import { isGone } from '../../../client/api-problem.ts';
import type { RestClient } from '../../../client/rest-client.ts';
import { formatEtag } from '../../../contract/fields/headers.ts';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { CallbackEndpoint, SigningSecret } from '../../../contract/resources/callback.ts';
import { contentHash } from '../../pass/desired-hash.ts';
import type { ExternalRef } from '../../pass/kind.ts';
import type { DefaultRank } from './organization-default.ts';
import type { LastRotation } from './signing-secret.ts';

export class ExternalCallback {
  readonly #api: RestClient;
  readonly #ref: ExternalRef;
  #endpoint: CallbackEndpoint | undefined;
  /** It was made in this pass. */
  isCreated: boolean = false;
  /** The last one that was issued in this pass: shown once. */
  issued: SigningSecret | undefined;
  /** The last rotation that was asked for, once this pass has dealt with it. */
  lastRotation: LastRotation;
  /** Once this pass knows. */
  rank: DefaultRank | undefined;

  constructor(api: RestClient, ref: ExternalRef) {
    this.#api = api;
    this.#ref = ref;
  }

  get projectId(): string {
    return this.#ref.projectId;
  }

  /** As last read or changed; undefined before `read` found one. */
  get found(): CallbackEndpoint | undefined {
    return this.#endpoint;
  }

  /** As `found`. Throws a RangeError where there is none. */
  get endpoint(): CallbackEndpoint {
    if (this.#endpoint === undefined) throw new RangeError(`The endpoint ${this.#ref.id} was not read.`);
    return this.#endpoint;
  }

  /** Undefined if there is none in the project: it was not made yet, or was removed. */
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
   * Makes the endpoint. Throws ApiProblem 409 with the path `endpointId` where one of that id was removed before, with
   * `alias` where another endpoint has the alias.
   */
  async create(body: OperationRequest<'createCallback'>['body']): Promise<void> {
    this.isCreated = true;
    const key = `callback:${this.#ref.uid}:${contentHash(body)}`;
    if (!(await this.#create(body, key))) return;
    // The endpoint of the earlier call may be gone since; its secret is lost in any case.
    if ((await this.read()) === undefined) await this.#create(body, `${key}:${crypto.randomUUID()}`);
  }

  async update(body: OperationRequest<'updateCallback'>['body']): Promise<void> {
    const { uid, id: endpointId } = this.#ref;
    const idempotencyKey = `update:${uid}:${this.endpoint.generation}:${contentHash({ endpointId, body })}`;
    const request = { ...this.#target(), body, idempotencyKey };
    const { body: endpoint } = await this.#api.call('updateCallback', request, this.#options);
    this.#endpoint = endpoint;
  }

  /** `cause`: a rotation of one endpoint for the same cause is done once. What a replay does not show, `issued` does not have. */
  async rotate(cause: string, overlapSeconds: number): Promise<void> {
    const { uid, id: endpointId } = this.#ref;
    const idempotencyKey = `rotate:${uid}:${contentHash({ endpointId, cause, overlapSeconds })}`;
    const request = { ...this.#target(), body: { overlapSeconds }, idempotencyKey };
    const { body } = await this.#api.call('rotateSigningSecret', request, this.#options);
    this.issued = body.signingSecret;
    this.#endpoint = body.endpoint;
    // A replay shows the endpoint as it was then.
    if (body.replayed) await this.read();
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
