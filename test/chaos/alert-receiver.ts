// A receiver that verifies each alert as it arrives, since a signature is good for five minutes, and keeps what it got.
import {
  type AlertBody,
  ok,
  type ReceivedRequest,
  startReceiver,
  verifyWebhook,
} from '../support/receiver.ts';

export interface Alert {
  webhookId: string;
  body: AlertBody;
}

export interface AlertReceiver {
  url: string;
  /** The `sigcb_v1_` secret; set it once it is known. */
  secret: string;
  received: Alert[];
  /** Requests whose signature did not verify. */
  unverified: number;
  /** One of each message: a dispatcher that dies may leave a message to be sent again, with the same id. */
  distinct(): Alert[];
  close(): Promise<void>;
}

export async function startAlertReceiver(): Promise<AlertReceiver> {
  const keep = (request: ReceivedRequest): void => {
    try {
      const body = verifyWebhook(request, alerts.secret) as AlertBody;
      alerts.received.push({ webhookId: String(request.headers['webhook-id']), body });
    } catch {
      alerts.unverified += 1;
    }
  };
  const { url, close } = await startReceiver((response, received, request) => {
    keep(received);
    ok(response, received, request);
  });
  const alerts: AlertReceiver = {
    url,
    secret: '',
    received: [],
    unverified: 0,
    distinct: () => [...new Map(alerts.received.map((alert) => [alert.webhookId, alert])).values()],
    close,
  };
  return alerts;
}
