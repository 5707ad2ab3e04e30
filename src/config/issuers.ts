// The trusted issuers of session tokens: BEATKEEPER_ISSUERS, a JSON array.
import { z } from 'zod';
import { ROLES } from '../domain/access.ts';

const issuer = z.strictObject({
  /** `iss` of the tokens; without `jwksUri` the place of their keys is discovered there. */
  issuer: z.string().min(1),
  audience: z.string().min(1),
  jwksUri: z.url({ protocol: /^https?$/ }).optional(),
  /** PEM file of the authorities that the issuer's own certificate is checked against. */
  caFile: z.string().min(1).optional(),
  /** File with the bearer token that reading the keys needs; read again at each use. */
  tokenFile: z.string().min(1).optional(),
  /** Name of the organization in which its principals act. */
  organization: z.string().min(1),
  /** Claim that names the role; default: `sub`. */
  roleClaim: z.string().min(1).optional(),
  /** Claim that names the organization, instead of `organization` where a token has it. */
  organizationClaim: z.string().min(1).optional(),
  /** Value of the claim to role. Who is not in it may do nothing. */
  roles: z.record(z.string(), z.enum(ROLES)),
});

/** Text to a list of issuers. */
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
