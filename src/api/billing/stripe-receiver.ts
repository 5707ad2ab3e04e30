// What happens with an event of Stripe: verified, read, applied in one transaction, counted, and its effect written into
// the log. routes/stripe-events.ts takes it from the network.
import { Counter, type Registry } from 'prom-client';
import { ZodError } from 'zod';
import type { BillingEvent } from '../../domain/billing.ts';
import { invalidField, ProblemError } from '../../domain/problem.ts';
import {
  type AppliedEvent,
  applyBillingEvent,
  type EventOutcome,
} from '../../service/billing/apply-event.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { auditStanding } from '../../telemetry/audit.ts';
import type { Log } from '../../telemetry/log.ts';
import { OccasionalWarning } from '../../telemetry/occasional-warning.ts';
import { readStripeEvent } from './stripe-event.ts';
import { createVerifier, unsigned, type VerifyEvent } from './stripe-signature.ts';

export interface StripeDeps {
  /** A share of the pool: events wait for each other, and hold a connection meanwhile. */
  db: Database;
  log: Log;
  registry: Registry;
  /** Of the endpoint at Stripe: `whsec_…`. */
  webhookSecret: string;
}

const STRIPE = { kind: 'system', id: 'stripe', display: 'Stripe' };
const OUTCOMES: readonly (EventOutcome | 'refused')[] = [
  'applied',
  'repeated',
  'older',
  'unconcerned',
  'refused',
];

export class StripeReceiver {
  readonly #deps: StripeDeps;
  readonly #verify: VerifyEvent;
  readonly #events: Counter<'outcome'>;
  readonly #refused: OccasionalWarning;

  constructor(deps: StripeDeps, verify: VerifyEvent) {
    this.#deps = deps;
    this.#verify = verify;
    this.#refused = new OccasionalWarning(deps.log, 'An event of Stripe was refused.');
    this.#events = new Counter({
      name: 'beatkeeper_billing_events_total',
      help: 'Events of the billing provider by outcome.',
      labelNames: ['outcome'],
      registers: [deps.registry],
    });
    for (const outcome of OUTCOMES) this.#events.inc({ outcome }, 0); // so that `increase` counts the first one
  }

  static async open(deps: StripeDeps): Promise<StripeReceiver> {
    return new StripeReceiver(deps, await createVerifier(deps.webhookSecret));
  }

  /** Throws `validation_failed` for what Stripe has not signed, and for what this build cannot read. */
  async receive(bytes: Buffer, signature: string): Promise<EventOutcome> {
    const event = this.#read(bytes, signature);
    const { outcome, changes } = await this.#apply(event);
    this.#events.inc({ outcome });
    if (!event) return outcome;
    const cause = `${event.type} ${event.eventId}`;
    for (const change of changes) auditStanding(this.#deps.log, STRIPE, { ...change, cause });
    if (outcome === 'applied' && event.kind === 'subscription' && event.subscription.plan === undefined)
      this.#deps.log.warn(
        { cause },
        'No price of the subscription has a plan (free, builder, smart, scale) as its lookup key: the plan stays as it was.',
      );
    return outcome;
  }

  /** 400 for who has sent no signature at all: before his body is read. */
  refuseUnsigned(): ProblemError {
    return this.#refuse(unsigned(), 'There is no signature.');
  }

  #read(bytes: Buffer, signature: string): BillingEvent | undefined {
    try {
      return readStripeEvent(this.#verify(bytes, signature));
    } catch (error) {
      if (error instanceof ProblemError)
        throw this.#refuse(
          error,
          'The signature is not one of STRIPE_WEBHOOK_SECRET over this body and time.',
        );
      if (!(error instanceof ZodError)) throw error;
      const faults = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
      const problem = invalidField('', 'This version of Beatkeeper cannot read the event: update it.');
      throw this.#refuse(problem, `It cannot be read. ${faults.join('; ')}`);
    }
  }

  #refuse(problem: ProblemError, reason: string): ProblemError {
    this.#events.inc({ outcome: 'refused' });
    this.#refused.record({ reason });
    return problem;
  }

  async #apply(event: BillingEvent | undefined): Promise<AppliedEvent> {
    if (!event) return { outcome: 'unconcerned', changes: [] };
    return await inTransaction(this.#deps.db, (tx) => applyBillingEvent(tx, event));
  }
}
