// Configuration of the role `sweeper`.
import { z } from 'zod';
import { places, requireOwnDatabases } from './places.ts';
import * as shared from './shared-settings.ts';

const settings = z.object({
  databaseUrl: shared.databaseUrl(),
  databaseEngine: shared.databaseEngine(),
  places: places(),
  encryptionKeys: shared.keys(),
  publicUrl: shared.publicUrl(),
  allowedPrivateDestinations: shared.allowedPrivateDestinations(),
  relayUrl: shared.relayUrl(),
  relayToken: shared.relayToken(),
  relayNotifiers: shared.relayNotifiers(),
  minimumIntervalSeconds: shared.minimumIntervalSeconds(),
  plans: shared.plans(),
  billingSource: shared.billingSource(),
  host: shared.host(),
  healthPort: shared.healthPort(),
  databasePool: shared.databasePool(),
  logLevel: shared.logLevel(),
});

export const sweeperSchema = settings.superRefine(requireOwnDatabases);
