// Verifies that an event comes from Stripe, with Stripe's own library, which is loaded where it is needed alone. The
// signature is over the bytes as they came, and over a moment of the last five minutes.
import { invalidField, type ProblemError } from '../../domain/problem.ts';

/** The JSON of a verified event. Throws `validation_failed` for any other body. */
export type VerifyEvent = (bytes: Buffer, signature: string) => unknown;

export async function createVerifier(webhookSecret: string): Promise<VerifyEvent> {
  const { Stripe } = await import('stripe');
  const { signature: signatures, DEFAULT_TOLERANCE } = Stripe.webhooks;
  if (!signatures) throw new Error('The library of Stripe cannot verify signatures.');
  return (bytes, signature) => {
    try {
      signatures.verifyHeader(bytes, signature, webhookSecret, DEFAULT_TOLERANCE);
    } catch {
      // The error has the body and the header: no log gets it.
      throw unsigned();
    }
    try {
      return JSON.parse(bytes.toString('utf8'));
    } catch {
      throw invalidField('', 'Must be JSON.', 'invalid_json');
    }
  };
}

/** 400: nobody knows who has sent it. */
export function unsigned(): ProblemError {
  return invalidField(
    'Stripe-Signature',
    'Send the event as Stripe has signed it for this endpoint, in the last five minutes.',
    'invalid_signature',
  );
}
