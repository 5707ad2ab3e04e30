// What tests of test deliveries share: an api, and a real receiver whose answer a test chooses.
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';

type Respond = (response: ServerResponse) => void;
const thank: Respond = (response) => response.end('thank you');

export type TestedEndpoint = Awaited<ReturnType<TestDeliveryFixture['make']>>;

export class TestDeliveryFixture {
  readonly api: ApiFixture;
  readonly receiver: Receiver;
  #respond: Respond = thank;

  private constructor(api: ApiFixture, receiver: Receiver) {
    this.api = api;
    this.receiver = receiver;
  }

  /** Call `close` in `afterAll`. */
  static async open(): Promise<TestDeliveryFixture> {
    const api = await openApiFixture();
    const receiver = await startReceiver((response) => fixture.#respond(response));
    const fixture = new TestDeliveryFixture(api, receiver);
    return fixture;
  }

  /** For `beforeEach`: no requests yet, and a receiver that says thank you. */
  reset(): void {
    this.#respond = thank;
    this.receiver.requests.length = 0;
  }

  /** What the receiver answers from now on. */
  answer(respond: Respond): void {
    this.#respond = respond;
  }

  /** A new endpoint, and the calls on it. */
  async make(url = `http://127.0.0.1:${this.receiver.port}/hook?a=b`) {
    const { manage, read } = this.api;
    const body = { alias: `a-${randomUUID()}`, url };
    const made = await manage.expectSuccess('createCallback', { body });
    const params = { endpointId: made.body.endpoint.id };
    return {
      params,
      etag: made.etag,
      secret: made.body.signingSecret?.secret ?? '',
      test: (idempotencyKey: string = randomUUID()) =>
        manage.call('testCallback', { params, idempotencyKey }),
      read: async () => (await read.expectSuccess('getCallback', { params })).body,
    };
  }

  /** Starts a test delivery whose receiver holds its answer until `release`. */
  async startHeldTest(endpoint: TestedEndpoint, idempotencyKey: string = randomUUID()) {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>();
    this.#respond = resolve;
    const testing = endpoint.test(idempotencyKey);
    const response = await promise;
    return {
      testing,
      release: (body?: string) => response.end(body),
      gone: () => response.writeHead(410).end(),
    };
  }

  async close(): Promise<void> {
    await this.receiver.close();
    await this.api.close();
  }
}
