// Configuration of the role `api`.
import { z } from 'zod';
import { issuers } from './issuers.ts';
import { places, requireOwnDatabases } from './places.ts';
import * as shared from './shared-settings.ts';
import { baseUrl, integer, optional, text, variable } from './variable.ts';

const settings = z.object({
  databaseUrl: shared.databaseUrl(),
  databaseEngine: shared.databaseEngine(),
  places: places(),
  encryptionKeys: shared.keys(),
  port: variable({ name: 'PORT', description: 'Port to listen on.', fallback: '8080' }, integer(1, 65_535)),
  host: shared.host(),
  healthPort: shared.healthPort(),
  tlsFolder: optional(
    {
      name: 'BEATKEEPER_TLS_FOLDER',
      description:
        'Folder with tls.crt and tls.key, with which PORT speaks https; read again every minute. Default: http.',
    },
    text,
  ),
  publicUrl: shared.publicUrl(),
  issuers: variable(
    {
      name: 'BEATKEEPER_ISSUERS',
      description:
        'JSON array of trusted token issuers: {issuer?, audience, jwksUri?, caFile?, tokenFile?, maxTokenAge?, tokenReviewUri?, organization or organizationClaim, roleClaim?, roles}.',
      fallback: '[]',
    },
    issuers,
  ),
  allowedPrivateDestinations: shared.allowedPrivateDestinations(),
  relayUrl: shared.relayUrl(),
  relayToken: shared.relayToken(),
  relayNotifiers: shared.relayNotifiers(),
  minimumIntervalSeconds: shared.minimumIntervalSeconds(),
  plans: shared.plans(),
  dashboardOrigin: optional(
    {
      name: 'BEATKEEPER_DASHBOARD_ORIGIN',
      description: 'Origin of a dashboard whose pages may call the API from a browser. Default: none.',
    },
    baseUrl,
  ),
  billingSource: shared.billingSource(),
  stripeWebhookSecret: optional(
    {
      name: 'STRIPE_WEBHOOK_SECRET',
      description:
        'Signing secret of the endpoint /billing/stripe at Stripe, whsec_…; with BILLING_SOURCE=stripe.',
    },
    text.regex(/^\S{8,}$/, 'must have at least 8 characters and no blanks'),
  ),
  maxConnections: variable(
    {
      name: 'BEATKEEPER_MAX_CONNECTIONS',
      description: 'Limit of open client connections; keep it below the limit of file descriptors.',
      fallback: '10000',
    },
    integer(10, 1_000_000),
  ),
  instanceName: optional(
    {
      name: 'INSTANCE_NAME',
      description:
        'Name of the place at which balancers send to this process; one that starts again keeps it. Default: <host name>:<PORT>.',
    },
    text,
  ),
  drainSeconds: variable(
    {
      name: 'BEATKEEPER_DRAIN_SECONDS',
      description: 'How long the process accepts requests after SIGTERM, until load balancers have noticed.',
      fallback: '5',
    },
    integer(0, 20),
  ),
  databasePool: shared.databasePool(),
  logLevel: shared.logLevel(),
});

export const apiSchema = settings
  .refine(
    ({ billingSource, stripeWebhookSecret }) =>
      billingSource === 'static' || stripeWebhookSecret !== undefined,
    { path: ['stripeWebhookSecret'], message: 'is missing: BILLING_SOURCE=stripe verifies events with it' },
  )
  .superRefine(requireOwnDatabases);
