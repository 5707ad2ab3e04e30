// Whose place a database is: it says so itself (docs/adr/0013). Nobody reads or writes in a place before this is known; the
// sweeper that copies the directory claims it first.
import type { Jurisdiction } from '../../domain/monitor.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { SecretBox } from '../postgres/secret-box.ts';
import { SCHEMA_VERSION } from './schema-version.ts';

/** What a place knows of its copies. */
export interface PlaceCopy {
  schemaVersion: string;
  /** The newest batch that was written. */
  batch: string;
}

interface AskedPlace {
  jurisdiction: Jurisdiction;
  pool: Queryable;
}

interface Claim extends PlaceCopy {
  installationId: string;
  jurisdiction: string;
  /** The installation's id, sealed by one of its keys. */
  proof: Buffer | null;
}

/** The database that is to be a place cannot be one. */
export class PlaceRefused extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'PlaceRefused';
  }
}

/** Why no place is used on Citus: its tables have no triggers. */
export const NO_PLACES_ON_CITUS = 'On Citus no jurisdiction has a database of its own.';

/** Takes an empty database for the installation. Throws `PlaceRefused` for one that is somebody else's. */
export async function claimPlace(place: AskedPlace, installationId: string): Promise<PlaceCopy> {
  await place.pool.query(
    `insert into directory_copy (installation_id, jurisdiction) select $1::uuid, $2
     where not exists (select from organizations) and not exists (select from directory_places)
     on conflict do nothing`,
    [installationId, place.jurisdiction],
  );
  return await requireOwn(place, installationId);
}

/**
 * Before a place is migrated, whatever schema it has. `installationId`: undefined while the default database does not say it.
 * Throws `PlaceRefused` for the default database of an installation, for a place of another one, and for any place that has
 * an owner while nobody knows whether it is this installation.
 */
export async function requireNotForeign(
  place: AskedPlace,
  installationId: string | undefined,
): Promise<void> {
  const [hasClaims, hasOrganizations] = await Promise.all([
    hasTable(place.pool, 'directory_copy'),
    hasTable(place.pool, 'organizations'),
  ]);
  const claims = hasClaims ? await place.pool.query<{ id: string }>(CLAIMANT) : undefined;
  const claimant = claims?.rows[0]?.id;
  if (claimant !== undefined && installationId === undefined)
    throw new PlaceRefused(
      `${nameOf(place)} belongs to an installation, and the default database does not say whether it is this one.`,
    );
  if (claimant !== undefined && claimant !== installationId)
    throw new PlaceRefused(`${nameOf(place)} belongs to another installation: give it an empty one.`);
  if (claimant !== undefined || !hasOrganizations) return;
  const { rowCount } = await place.pool.query('select from organizations limit 1');
  if (rowCount) throw new PlaceRefused(hasItsOwn(place));
}

const CLAIMANT = 'select installation_id as id from directory_copy';

async function hasTable(db: Queryable, name: string): Promise<boolean> {
  const { rows } = await db.query<{ present: boolean }>('select to_regclass($1) is not null as present', [
    name,
  ]);
  return rows[0]?.present === true;
}

/**
 * Finds out whose it is, without a claim. `installationId`: undefined while the default database does not say it; then the
 * place counts as the installation's own where a process with its keys has noted that before. Throws `PlaceRefused`.
 */
export async function verifyPlace(
  place: AskedPlace,
  secrets: SecretBox,
  installationId: string | undefined,
): Promise<void> {
  const claim = await requireOwn(place, installationId);
  const { pool, jurisdiction } = place;
  const associated = `installation/${jurisdiction}/place`;
  if (isProven(claim, secrets, associated)) return;
  if (installationId === undefined)
    throw new PlaceRefused(
      `${nameOf(place)} may be another installation's: the default database says whose it is, and does not answer.`,
    );
  const proof = secrets.seal(installationId, associated);
  await pool.query('update directory_copy set proof = $1 where installation_id = $2 and jurisdiction = $3', [
    proof,
    installationId,
    jurisdiction,
  ]);
}

/** Also false where the key of the proof is retired: it is made again with a newer one. */
function isProven({ proof, installationId }: Claim, secrets: SecretBox, associated: string): boolean {
  if (proof === null) return false;
  try {
    return secrets.open(proof, associated) === installationId;
  } catch {
    return false;
  }
}

/**
 * In a place, the first lock of every transaction that changes several rows of organizations or reservations there: copies,
 * full copies and reports come one after the other, in whichever order each of them finds its rows.
 */
export async function lockCopy(tx: Queryable): Promise<void> {
  await tx.query('select from directory_copy for no key update');
}

/** `installationId` undefined: any. */
async function requireOwn(place: AskedPlace, installationId: string | undefined): Promise<Claim> {
  const claim = await findClaim(place.pool);
  if (!claim) throw new PlaceRefused(await whyUnclaimed(place));
  if (installationId !== undefined && claim.installationId !== installationId)
    throw new PlaceRefused(`${nameOf(place)} belongs to another installation: give it an empty one.`);
  if (claim.jurisdiction !== place.jurisdiction)
    throw new PlaceRefused(
      `${nameOf(place)} is that of the jurisdiction ${claim.jurisdiction}: each has one of its own.`,
    );
  return claim;
}

async function findClaim(place: Queryable): Promise<Claim | undefined> {
  const { rows } = await place.query<Claim>(
    `select installation_id as "installationId", jurisdiction, batch, proof, ${SCHEMA_VERSION} as "schemaVersion"
     from directory_copy`,
  );
  return rows[0];
}

async function whyUnclaimed(place: AskedPlace): Promise<string> {
  const { rows } = await place.pool.query<{ taken: boolean }>(
    'select exists (select from organizations) or exists (select from directory_places) as taken',
  );
  return rows[0]?.taken
    ? hasItsOwn(place)
    : `${nameOf(place)} is empty: a sweeper that reaches both databases makes it ready.`;
}

const hasItsOwn = (place: AskedPlace) =>
  `${nameOf(place)} has organizations of its own: it is the default database, or another installation's. Give it an empty one.`;

const nameOf = ({ jurisdiction }: AskedPlace) => `The database of the jurisdiction ${jurisdiction}`;
