// npm install standardwebhooks
import { Webhook } from 'standardwebhooks';

/** Returns the event. Throws when the signature is wrong or older than five minutes. */
export function verifyAlert(secret: string, headers: Record<string, string>, body: string): unknown {
  // Beatkeeper writes the key in base64url, the library reads base64.
  const key = Buffer.from(secret.replace('sigcb_v1_', ''), 'base64url').toString('base64');
  return new Webhook(key).verify(body, headers);
}
