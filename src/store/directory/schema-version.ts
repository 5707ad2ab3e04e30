// The version of a database's schema, in statements that compare that of a place with that of the default database.

/** SQL: the newest migration of the database in which it runs. Names sort in the order of migrations. */
export const SCHEMA_VERSION = '(select name from schema_migrations order by version desc limit 1)';
