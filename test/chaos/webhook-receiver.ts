// A receiver on loopback that verifies every webhook with the standardwebhooks package and keeps what it got.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';

export interface Received {
  webhookId: string;
  type: string;
  incidentId: string;
  monitorId: string;
  sequence: number;
}

export class WebhookReceiver {
  readonly received: Received[] = [];
  /** Deliveries whose signature did not verify. */
  unverified = 0;
  /** The `sigcb_v1_` secret; set it once it is known. */
  secret = '';
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        this.#keep(Buffer.concat(chunks).toString(), request.headers as Record<string, string>);
        response.writeHead(204).end();
      });
    });
  }

  static async start(): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }

  /** One of each message: a repeat of what was in flight when its sender died has the same id. */
  get distinct(): Received[] {
    return [...new Map(this.received.map((message) => [message.webhookId, message])).values()];
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #keep(body: string, headers: Record<string, string>): void {
    const key = Buffer.from(this.secret.slice('sigcb_v1_'.length), 'base64url').toString('base64');
    try {
      const { type, data } = new Webhook(key).verify(body, headers) as {
        type: string;
        data: { incident: { incidentId: string; monitorId: string }; sequence: number };
      };
      const { incidentId, monitorId } = data.incident;
      this.received.push({
        webhookId: headers['webhook-id'] ?? '',
        type,
        incidentId,
        monitorId,
        sequence: data.sequence,
      });
    } catch {
      this.unverified += 1;
    }
  }
}
