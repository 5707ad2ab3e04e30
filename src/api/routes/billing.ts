// GET /v1/organization/billing (docs/contract/organization.md).
import type { BillingSource } from '../../domain/billing.ts';
import { readBilling } from '../../service/billing/read-billing.ts';
import type { Handlers } from '../operation.ts';
import { presentBilling } from '../present/present-billing.ts';

export function billingHandlers(source: BillingSource): Handlers<'getBilling'> {
  return {
    async getBilling({ caller, db, context }) {
      return { body: presentBilling(await readBilling(db, source, caller.organizationId), context.findPlan) };
    },
  };
}
