#!/bin/bash
# Makes the two roles of the bundled Postgres: `beatkeeper` owns the database and its schema, `beatkeeper_application`
# changes rows. It runs at every start of the container, beside the server, so that a first start that was cut off and a
# changed password are put right. The superuser has no password: only inside this container, by the socket, can one be it.
set -u

roles() {
  psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<'SQL' &&
\getenv owner_password OWNER_PASSWORD
\getenv application_password APPLICATION_PASSWORD
-- No statement with a password stands in the log.
set log_statement = 'none';
set log_min_duration_statement = -1;
set log_min_error_statement = 'panic';
select format('create role %I', name) from (values ('beatkeeper'), ('beatkeeper_application')) as wanted (name)
where not exists (select from pg_roles where rolname = name) \gexec
alter role beatkeeper login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'owner_password';
alter role beatkeeper_application login nosuperuser nocreatedb nocreaterole noreplication nobypassrls
  password :'application_password';
alter role postgres password null;
select 'create database beatkeeper' where not exists (select from pg_database where datname = 'beatkeeper') \gexec
alter database beatkeeper owner to beatkeeper;
revoke all on database beatkeeper, postgres, template1 from public;
grant connect on database beatkeeper to beatkeeper_application;
SQL
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username postgres --dbname beatkeeper \
      --command 'revoke create on schema public from public'
}

# A server that only initializes its data listens on no address.
until pg_isready --quiet --host 127.0.0.1 && roles; do sleep 1; done
