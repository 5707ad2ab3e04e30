// The sender of each endpoint kind and format: the one table that the dispatcher and test deliveries choose from.
import type { EndpointKind } from '../domain/callback.ts';
import type { Relay } from './relay/relay.ts';
import { RelaySender } from './relay/relay-sender.ts';
import type { Sender } from './sender.ts';
import type { DestinationDeps } from './webhook/destination.ts';
import { WebhookSender } from './webhook/webhook-sender.ts';

export interface SendersOptions extends DestinationDeps {
  /** For one attempt with everything; default 10 s. */
  timeoutMs?: number;
  /** That of the installation, where it has one. */
  relay?: Relay;
}

const openRelay = (options: SendersOptions) => new RelaySender(options);

/** Endpoint kind and format -> sender. A new format is a file in formats/ and a row here. */
const SENDERS: Readonly<Record<`${EndpointKind} ${string}`, (options: SendersOptions) => Sender>> = {
  'webhook standard': (options) => new WebhookSender(options),
  'relay_subscriber standard': openRelay,
  'relay_group standard': openRelay,
};

/** All senders of a process, with their connections. Close it when the process ends. */
export class Senders {
  readonly #senders: ReadonlyMap<string, Sender>;

  constructor(options: SendersOptions) {
    this.#senders = new Map(Object.entries(SENDERS).map(([form, open]) => [form, open(options)]));
  }

  /** The sender of an endpoint. Throws where there is none: no receiver gets a format that it does not read. */
  of({ kind, format = 'standard' }: { kind: EndpointKind; format?: string }): Sender {
    const sender = this.#senders.get(`${kind} ${format}`);
    if (!sender) throw new Error(`There is no sender for ${kind} endpoints of the format ${format}.`);
    return sender;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#senders.values()].map((sender) => sender.close()));
  }
}
