// The trusted issuers of session tokens: BEATKEEPER_ISSUERS, a JSON array.
import { z } from 'zod';
import { ROLES } from '../domain/access.ts';

const issuer = z.strictObject({
  /** `iss` of the tokens. Without `jwksUri` the address of their keys is discovered there. */
  issuer: z.string().min(1),
  audience: z.string().min(1),
  jwksUri: z.url({ protocol: /^https?$/ }).optional(),
  /** PEM file of the authorities that may sign the issuer's own TLS certificate. */
  caFile: z.string().min(1).optional(),
  /** File with the bearer token for the request of the keys; read again at each use. */
  tokenFile: z.string().min(1).optional(),
  /** Name of the organization in which the issuer's principals act. */
  organization: z.string().min(1),
  /** Claim whose value is looked up in `roles`. Default: `sub`. */
  roleClaim: z.string().min(1).optional(),
  /** Claim that names the organization. It takes precedence over `organization` in tokens that have it. */
  organizationClaim: z.string().min(1).optional(),
  /** Maps values of `roleClaim` to roles. A principal that is not in it has no permissions. */
  roles: z.record(z.string(), z.enum(ROLES)),
});

/** Parses a JSON text to a list of issuers. */
export const issuers = z
  .string()
  .transform((value, context): unknown => {
    try {
      return JSON.parse(value);
    } catch {
      context.addIssue({ code: 'custom', message: 'must be a JSON array of issuers' });
      return z.NEVER;
    }
  })
  .pipe(z.array(issuer));
