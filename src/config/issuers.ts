// The trusted issuers of session tokens: BEATKEEPER_ISSUERS, a JSON array.
import { z } from 'zod';
import { ROLES } from '../domain/access.ts';
import { json } from './variable.ts';

const DAY_SECONDS = 86_400;
const address = z.url({ protocol: /^https?$/ });

const issuer = z
  .strictObject({
    /**
     * `iss` of the tokens. Without `jwksUri` the address of their keys is discovered there. Default: that of the token in
     * `tokenFile`, so that a pod trusts the issuer of its cluster, whatever its name is.
     */
    issuer: z.string().min(1).optional(),
    audience: z.string().min(1),
    jwksUri: address.optional(),
    /** PEM file of the authorities that may sign the issuer's own TLS certificate. */
    caFile: z.string().min(1).optional(),
    /** File with the bearer token for the requests of keys and reviews; read again at each use. */
    tokenFile: z.string().min(1).optional(),
    /** Seconds since `iat` after which a token is refused, whatever its `exp` is. */
    maxTokenAge: z.int().min(1).default(DAY_SECONDS),
    /** Where a Kubernetes API server reviews tokens: …/apis/authentication.k8s.io/v1/tokenreviews. */
    tokenReviewUri: address.optional(),
    /** Name of the organization in which the issuer's principals act, where there is no `organizationClaim`. */
    organization: z.string().min(1).optional(),
    /** Claim whose value is looked up in `roles`. Default: `sub`. */
    roleClaim: z.string().min(1).optional(),
    /** Claim that names the organization, in place of `organization`. A token without it belongs to none. */
    organizationClaim: z.string().min(1).optional(),
    /** Maps values of `roleClaim` to roles. A principal that is not in it has no permissions. */
    roles: z.record(z.string(), z.enum(ROLES)),
  })
  .refine(
    ({ organization, organizationClaim }) => organization !== undefined || organizationClaim !== undefined,
    'states neither organization nor organizationClaim',
  )
  .refine(
    ({ issuer, tokenFile, jwksUri }) =>
      issuer !== undefined || (tokenFile !== undefined && jwksUri !== undefined),
    'states no issuer: then it needs tokenFile, whose token names it, and jwksUri',
  );

/** Parses a JSON text to a list of issuers. */
export const issuers = json('must be a JSON array of issuers', z.array(issuer));
