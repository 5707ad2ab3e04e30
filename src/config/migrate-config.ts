// Configuration of the role `migrate`.
import { z } from 'zod';
import { PLAN_IDS } from '../domain/problem.ts';
import { placeRoles, places, requireOwnDatabases } from './places.ts';
import * as shared from './shared-settings.ts';
import { integer, optional, text, variable } from './variable.ts';

const settings = z.object({
  databaseUrl: shared.databaseUrl(),
  databaseEngine: shared.databaseEngine(),
  places: places(),
  applicationRole: optional(
    {
      name: 'DATABASE_APPLICATION_ROLE',
      description:
        'Database role of api and sweeper, which gets the right to change rows. Default: they have the role of DATABASE_URL.',
    },
    text,
  ),
  placeRoles: placeRoles(),
  organization: variable(
    {
      name: 'BEATKEEPER_ORGANIZATION',
      description: 'Name of the organization, which is created if it does not exist.',
      fallback: 'default',
    },
    text,
  ),
  plan: variable(
    {
      name: 'BEATKEEPER_PLAN',
      description:
        'Plan of that organization: free, builder, smart or scale. With BILLING_SOURCE=stripe until it has a subscription.',
      fallback: 'scale',
    },
    z.enum(PLAN_IDS, 'must be free, builder, smart or scale'),
  ),
  billingSource: shared.billingSource(),
  waitSeconds: variable(
    {
      name: 'BEATKEEPER_MIGRATE_WAIT_SECONDS',
      description:
        'How long to wait for a database that does not answer yet, or where another session holds a lock.',
      fallback: '120',
    },
    integer(0, 3_600),
  ),
  logLevel: shared.logLevel(),
});

export const migrateSchema = settings.superRefine(requireOwnDatabases);
