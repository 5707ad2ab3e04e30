// credentials and their address table, which finds an API credential by its id in any project. The table holds the
// SHA-256 digest of the secret, not the secret. Lock order: only the credential's own row. Updates have the time of their
// statement, because Citus takes no volatile function in them (docs/adr/0012).
import type { CredentialPreset } from '../../domain/access.ts';
import type { ServiceState } from '../../domain/problem.ts';
import { KEPT_DAYS } from '../../domain/retention.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { isDistributed, ofProjects } from '../postgres/engine.ts';
import { type KeysetPage, keysetList, type Positioned } from '../postgres/keyset.ts';
import type { Queryable } from '../postgres/pool.ts';
import { groupByShard } from '../postgres/shards.ts';

export interface Credential {
  projectId: string;
  credentialId: string;
  name: string;
  preset: CredentialPreset;
  scopes: string[];
  createdMs: number;
  lastUsedMs?: number;
  expiresMs?: number;
  revokedMs?: number;
  /** When the secret before the last rotation stops. */
  previousEndsMs?: number;
  version: number;
}

export interface NewCredential
  extends Pick<Credential, 'projectId' | 'credentialId' | 'name' | 'preset' | 'expiresMs'> {
  scopes: readonly string[];
  /** SHA-256 of the secret. */
  digest: Buffer;
}

const NEW: Columns<NewCredential> = {
  projectId: column.plain('project_id', 'uuid'),
  credentialId: column.plain('credential_id', 'text'),
  name: column.quoted('name', 'text'),
  preset: column.plain('preset', 'text'),
  scopes: column.quoted('scopes', 'text[]'),
  expiresMs: column.moment('expires_at'),
  digest: column.quoted('digest', 'bytea'),
};

const CREDENTIAL: Columns<Credential> = {
  projectId: NEW.projectId,
  credentialId: NEW.credentialId,
  name: NEW.name,
  preset: NEW.preset,
  scopes: column.quoted('scopes', 'text[]'),
  createdMs: column.clockMoment('created_at'),
  lastUsedMs: column.clockMoment('last_used_at'),
  expiresMs: NEW.expiresMs,
  revokedMs: column.clockMoment('revoked_at'),
  previousEndsMs: column.clockMoment('previous_ends_at'),
  version: column.plain('version', 'integer'),
};
const COLUMNS = sql.select(CREDENTIAL, 'c');
const toCredential = rowReader(CREDENTIAL);
const list = keysetList(CREDENTIAL, {
  from: 'credentials c',
  alias: 'c',
  time: 'created_at',
  id: 'credential_id',
});

/** A revoked credential can be read for a while (docs/contract/tenancy.md). */
const READABLE = `(c.revoked_at is null or c.revoked_at > clock_timestamp() - interval '${KEPT_DAYS.revokedCredentials} days')`;

const insertRow = (bind: Bind<NewCredential>) =>
  `insert into credentials as c (${sql.names(NEW)}) values (${sql.parameters(NEW, bind, (credential) => credential)})`;
const INSERT = statement(
  'insert-credential',
  (bind: Bind<NewCredential>) => `with address as (
      insert into credential_addresses (credential_id, project_id)
      values (${bind(({ credentialId }) => credentialId)}, ${bind(({ projectId }) => projectId)}))
    ${insertRow(bind)}
    returning ${COLUMNS}`,
);
const INSERT_ROW = statement('insert-credential-row', insertRow);
const INSERT_ADDRESS = 'insert into credential_addresses (credential_id, project_id) values ($1, $2)';

/** Inserts the credential and its address in one statement. */
export async function insertCredential(db: Queryable, credential: NewCredential): Promise<Credential> {
  if (!isDistributed()) return onlyRow((await db.query(INSERT(credential))).rows);
  const { projectId, credentialId } = credential;
  await db.query(INSERT_ADDRESS, [credentialId, projectId]);
  await db.query(INSERT_ROW(credential));
  return await readBack(db, projectId, credentialId);
}

export async function findCredential(
  db: Queryable,
  projectId: string,
  credentialId: string,
): Promise<Credential | undefined> {
  const { rows } = await db.query(
    `select ${COLUMNS} from credentials c where c.project_id = $1 and c.credential_id = $2 and ${READABLE}`,
    [projectId, credentialId],
  );
  return rows.map(toCredential)[0];
}

/** Locks the row until the end of the transaction. */
export async function lockCredential(
  tx: Queryable,
  projectId: string,
  credentialId: string,
): Promise<Credential | undefined> {
  const { rows } = await tx.query(
    `select ${COLUMNS} from credentials c
     where c.project_id = $1 and c.credential_id = $2 and ${READABLE} for update`,
    [projectId, credentialId],
  );
  return rows.map(toCredential)[0];
}

/** Newest first (index credentials_list). */
export async function listCredentials(
  db: Queryable,
  projectId: string,
  page: KeysetPage,
): Promise<Positioned<Credential>[]> {
  return await list(db, [['c.project_id = $', projectId], [READABLE]], page);
}

export interface Rotation {
  projectId: string;
  credentialId: string;
  digest: Buffer;
  /** 0: the old secret ends at once. */
  overlapSeconds: number;
}

/** Replaces the secret; the old one works until the overlap ends. The caller has locked the row. */
export async function updateCredentialDigest(tx: Queryable, rotation: Rotation): Promise<Credential> {
  const { rows } = await tx.query(
    `update credentials c set digest = $3, version = c.version + 1,
       previous_digest = case when $4 > 0 then c.digest end,
       previous_ends_at = statement_timestamp() + make_interval(secs => nullif($4, 0))
     where c.project_id = $1 and c.credential_id = $2${isDistributed() ? '' : ` returning ${COLUMNS}`}`,
    [rotation.projectId, rotation.credentialId, rotation.digest, rotation.overlapSeconds],
  );
  return isDistributed() ? await readBack(tx, rotation.projectId, rotation.credentialId) : onlyRow(rows);
}

/** Revokes the credential and all of its secrets. The caller has locked the row. */
export async function updateCredentialRevoked(
  tx: Queryable,
  projectId: string,
  credentialId: string,
): Promise<void> {
  await tx.query(
    `update credentials set revoked_at = statement_timestamp(), version = version + 1,
       previous_digest = null, previous_ends_at = null
     where project_id = $1 and credential_id = $2`,
    [projectId, credentialId],
  );
}

/** What a presented secret is checked against. Spans count from the read, so that clocks need not agree. */
export interface KnownCredential {
  credentialId: string;
  name: string;
  preset: CredentialPreset;
  scopes: string[];
  projectId: string;
  organizationId: string;
  organizationName: string;
  plan: string;
  serviceState: ServiceState;
  digest: Buffer;
  previousDigest: Buffer | null;
  /** Null without an expiry, negative after it. */
  expiresInMs: number | null;
  previousEndsInMs: number | null;
  revoked: boolean;
}

/** Finds a credential by the id that a caller presents, in one round trip over primary keys. */
export async function findKnownCredential(
  db: Queryable,
  credentialId: string,
): Promise<KnownCredential | undefined> {
  const { rows } = await db.query<KnownCredential>({
    name: 'find-known-credential',
    text: `select c.credential_id as "credentialId", c.name, c.preset, c.scopes, c.project_id as "projectId",
        p.organization_id as "organizationId", o.name as "organizationName", o.plan,
        o.service_state as "serviceState", c.digest, c.previous_digest as "previousDigest",
        (extract(epoch from c.expires_at - clock_timestamp()) * 1000)::float8 as "expiresInMs",
        (extract(epoch from c.previous_ends_at - clock_timestamp()) * 1000)::float8 as "previousEndsInMs",
        c.revoked_at is not null as revoked
      from credential_addresses a
      join credentials c on c.project_id = a.project_id and c.credential_id = a.credential_id
      join projects p on p.project_id = a.project_id
      join organizations o on o.organization_id = p.organization_id
      where a.credential_id = $1`,
    values: [credentialId],
  });
  return rows[0];
}

/** Records that credentials were used: at most once a minute for each, with any number of replicas. */
export async function updateLastUsed(
  db: Queryable,
  used: readonly { projectId: string; credentialId: string }[],
): Promise<void> {
  for (const some of await groupByShard(db, used)) {
    await db.query(
      `update credentials c set last_used_at = statement_timestamp()
       from unnest($1::uuid[], $2::text[]) as u (project_id, credential_id)
       where c.project_id = u.project_id and c.credential_id = u.credential_id${ofProjects('c', '$1')}
         and (c.last_used_at is null or c.last_used_at < statement_timestamp() - interval '1 minute')`,
      [some.map((one) => one.projectId), some.map((one) => one.credentialId)],
    );
  }
}

/** On Citus, where RETURNING takes no function of a time. */
async function readBack(db: Queryable, projectId: string, credentialId: string): Promise<Credential> {
  const written = await findCredential(db, projectId, credentialId);
  return written ?? onlyRow([]);
}

function onlyRow(rows: readonly object[]): Credential {
  const [row] = rows.map(toCredential);
  if (!row) throw new Error('A statement on credentials returned no row.');
  return row;
}
