// Billing of an organization (docs/contract/organization.md).
import { z } from 'zod';
import { DISPUTES, SUBSCRIPTION_STATUSES } from '../../domain/billing.ts';
import { SERVICE_STATES } from '../../domain/problem.ts';
import { timestamp } from '../fields/field.ts';
import { planName } from './problem.ts';

export const billing = z.object({
  organizationId: z.string(),
  plan: planName,
  serviceState: z
    .enum(SERVICE_STATES)
    .describe('Writes and beats are refused unless it is `active` or `payment_grace`; reads go on.'),
  subscription: z.object({
    status: z.enum(SUBSCRIPTION_STATUSES).describe('`none`: there is no subscription.'),
    cancelAtPeriodEnd: z.boolean().optional().describe('Absent without a subscription.'),
    currentPeriodEnd: timestamp.optional(),
    trialEndsAt: timestamp.optional().describe('In a trial, and only there.'),
  }),
  dispute: z.enum(DISPUTES).describe('Of several the gravest: `lost`, then `open`, then `won`.'),
  portalAvailable: z.boolean().describe("Whether the provider's portal has this customer."),
  graceEndsAt: timestamp.optional().describe('In `payment_grace`, and only there.'),
  reconciledAt: timestamp.optional().describe('When an event of the billing provider was last applied.'),
});
export type Billing = z.output<typeof billing>;
