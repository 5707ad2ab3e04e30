// POST /v1/destination-checks: whether callbacks may go to the addresses that endpoints have (docs/contract/callbacks.md).
import { z } from 'zod';
import { identifier } from '../fields/field.ts';

/** So many ids of the greatest length fit into a body. */
export const MAX_CHECKED = 100;

export const checkDestinationsBody = z.strictObject({
  endpointIds: z
    .array(identifier)
    .min(1)
    .max(MAX_CHECKED)
    .describe('Endpoints of the project, also those of inline bindings.'),
});

export const checkDestinationsResult = z.object({
  items: z
    .array(
      z.object({
        endpointId: identifier,
        verdict: z
          .enum(['accepted', 'refused', 'unknown'])
          .describe('`unknown`: DNS knows no address of the host now, or gave no answer in time.'),
        detail: z.string().optional().describe('Of a refusal: why.'),
      }),
    )
    .describe('One for each endpoint that exists and has an address.'),
});
