// Signing secrets of callback endpoints, sealed. At most two sign at a time: the newest, and the one before it
// until the overlap of a rotation is over. The service decides what is sealed and opened, and when.
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { EndpointRef } from './callback-endpoints.ts';

export interface SigningSecretRow extends EndpointRef {
  /** 1 to 65,535; each rotation adds one. */
  version: number;
  secretBox: Buffer;
  issuedMs: number;
}

/** Inserts a secret that signs until a rotation ends it. */
export async function insertSigningSecret(tx: Queryable, row: SigningSecretRow): Promise<void> {
  await tx.query(
    `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at)
     values ($1, $2, $3, $4, ${fromMillis('$5')})`,
    [row.projectId, row.endpointId, row.version, row.secretBox, row.issuedMs],
  );
}

/**
 * Makes room for a new secret: the current one (`version`) signs until `endsMs`, older ones are deleted.
 * The caller has locked the endpoint's row.
 */
export async function supersedeSigningSecret(
  tx: Queryable,
  ref: EndpointRef,
  current: { version: number; endsMs: number },
): Promise<void> {
  await tx.query(
    `with older as (
       delete from signing_secrets where project_id = $1 and endpoint_id = $2 and version < $3)
     update signing_secrets set ends_at = ${fromMillis('$4')}
     where project_id = $1 and endpoint_id = $2 and version = $3`,
    [ref.projectId, ref.endpointId, current.version, current.endsMs],
  );
}

/** Erases every secret of an endpoint that is removed. */
export async function deleteSigningSecrets(tx: Queryable, ref: EndpointRef): Promise<void> {
  await tx.query('delete from signing_secrets where project_id = $1 and endpoint_id = $2', [
    ref.projectId,
    ref.endpointId,
  ]);
}

/** The boxes of the secrets that sign now (the database's clock), newest first: one, or two in an overlap. */
export async function findValidSecretBoxes(db: Queryable, ref: EndpointRef): Promise<Buffer[]> {
  const { rows } = await db.query<{ secret_box: Buffer }>({
    name: 'find-valid-secret-boxes',
    text: `select secret_box from signing_secrets
      where project_id = $1 and endpoint_id = $2 and (ends_at is null or ends_at > clock_timestamp())
      order by version desc limit 2`,
    values: [ref.projectId, ref.endpointId],
  });
  return rows.map((row) => row.secret_box);
}
