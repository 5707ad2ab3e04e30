// The version of a database's schema, in statements that compare that of a place with that of the default database.

/** SQL: of the database in which it runs. */
export const SCHEMA_VERSION = '(select max(version) from schema_migrations)';
