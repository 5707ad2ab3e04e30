-- Databases of jurisdictions (docs/adr/0013). The directory is what belongs to organizations: it is written in the default
-- database and copied to those of jurisdictions, the places.

create table installation (
  is_only_row boolean primary key default true check (is_only_row),
  installation_id uuid not null default gen_random_uuid()
);
insert into installation default values;

-- In the default database: the places. Empty where all is in one database.
create table directory_places (
  jurisdiction text primary key,
  -- Every transaction below it that could not see this row has ended before the first full copy.
  seen_from xid8,
  -- The newest batch that the place is known to have; null: none.
  ended uuid,
  -- The number of the newest report of its counts.
  reported bigint not null default 0,
  -- A full copy that is under way: its next step, and the last key of it that is done. Each one has an id of its own: a page
  -- that was read for another one is not queued.
  fill_id uuid not null default gen_random_uuid(),
  fill_step smallint default 0,
  fill_after jsonb
);

-- What is to be copied. The number rises with each change of the key.
create table directory_changes (
  jurisdiction text not null references directory_places on delete cascade,
  table_name text collate "C" not null,
  row_key jsonb not null,
  number bigint not null,
  -- When the place refused the row for its data; null: it has not.
  refused_at timestamptz,
  primary key (jurisdiction, table_name, row_key)
);
create sequence directory_numbers;

-- Batches that may be written next, each noted in the transaction that has read it. Ids are random: a database that was
-- restored never gives one again. No foreign key: its check would fail in the snapshot of that transaction.
create table directory_batches (
  batch_id uuid primary key,
  jurisdiction text not null,
  -- The batch that the place has when this one is written.
  follows uuid not null
);
create index directory_batches_jurisdiction on directory_batches (jurisdiction, follows);

-- In a place: whose it is, and the newest batch that was written.
create table directory_copy (
  is_only_row boolean primary key default true check (is_only_row),
  installation_id uuid not null,
  jurisdiction text not null,
  -- The installation's id, sealed by a key of the installation: whose it is while the default database is away.
  proof bytea,
  batch uuid not null default gen_random_uuid(),
  -- The number of the newest report of its counts that may have been sent.
  reported bigint not null default 0
);
-- In a place: the number of each copy and of each deletion. An older one is not written.
create table directory_rows (
  table_name text collate "C" not null,
  row_key jsonb not null,
  number bigint not null,
  primary key (table_name, row_key)
);
-- In a place: what the default database has been told of an endpoint.
create table directory_reports (
  project_id uuid not null,
  endpoint_id text collate "C" not null,
  last_delivery jsonb,
  disabled_at timestamptz,
  primary key (project_id, endpoint_id)
);

-- In the default database: what an organization has in a place, as of its newest report, and what calls have reserved there.
create table place_slots (
  organization_id uuid not null,
  jurisdiction text not null,
  monitors integer not null,
  endpoints integer not null,
  primary key (organization_id, jurisdiction)
);
create table slot_reservations (
  reservation_id uuid primary key,
  organization_id uuid not null,
  jurisdiction text not null,
  monitors integer not null,
  endpoints integer not null,
  reserved_at timestamptz not null default clock_timestamp()
);
create index slot_reservations_organization on slot_reservations (organization_id);
create index slot_reservations_age on slot_reservations (jurisdiction, reserved_at);
-- In a place: reservations that a call has used, or that no call can use any more.
create table used_reservations (
  reservation_id uuid primary key,
  used_at timestamptz not null default clock_timestamp(),
  is_reported boolean not null default false
);
create index used_reservations_unreported on used_reservations (reservation_id) where not is_reported;
create index used_reservations_age on used_reservations (used_at);

-- Which rows of the directory are to be copied to the databases of jurisdictions (docs/adr/0013). `api` and `sweeper` may
-- have a database role that takes no number: these functions have the rights of the tables' owner.

-- Queues rows for one place, or for all of them where it is null. A number is taken while the line is locked, until the end
-- of the transaction: of one key they rise in the order of the commits.
create function queue_directory_rows(place text, of_table text, keys jsonb[]) returns void
language plpgsql security definer as $$
begin
  insert into directory_changes (jurisdiction, table_name, row_key, number)
  select p.jurisdiction, of_table, k.row_key, 0 from directory_places p cross join unnest(keys) as k (row_key)
  where place is null or p.jurisdiction = place order by 1, 3
  on conflict (jurisdiction, table_name, row_key) do update set number = 0, refused_at = null;
  update directory_changes set number = nextval('directory_numbers')
  where (place is null or jurisdiction = place) and table_name = of_table and row_key = any (keys);
end $$;

-- Numbers begin above `reached` from now on, and above all that a process may hold which stands still. No lock: what others
-- take meanwhile is far less than the step.
create function raise_directory_numbers(reached bigint) returns void language plpgsql security definer as $$
begin
  perform setval('directory_numbers', greatest(reached, (select last_value from directory_numbers)) + 1000000);
end $$;

-- Queues the row that changes; the arguments of the trigger are the columns of its key, which never change. The endpoint of
-- an inline binding belongs to its monitor and is not copied, nor are its secrets.
create function queue_directory_row() returns trigger language plpgsql security definer as $$
declare
  changed jsonb;
begin
  if not exists (select from directory_places) then
    return null;
  end if;
  changed := case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
  if tg_table_name in ('callback_endpoints', 'signing_secrets') and exists (
    select from callback_endpoints e where e.project_id = (changed ->> 'project_id')::uuid
      and e.endpoint_id = changed ->> 'endpoint_id' and e.monitor_key is not null) then
    return null;
  end if;
  perform queue_directory_rows(null, tg_table_name,
    array[(select jsonb_object_agg(name, changed -> name) from unnest(tg_argv) as name)]);
  return null;
end $$;

-- Of a table that is emptied at once each place gets all anew. What a copier has read of it before and writes later is older
-- than the lines that are queued.
create function fill_directory_again() returns trigger language plpgsql security definer as $$
begin
  update directory_places set fill_id = gen_random_uuid(), fill_step = 0, fill_after = null;
  update directory_changes set number = nextval('directory_numbers') where table_name = tg_table_name;
  return null;
end $$;

-- AFTER: a row that changes is locked by then. Columns that a place does not get are left out, so that what is written often
-- (counts of an organization, the last use of a credential, the last delivery of an endpoint) queues nothing.
-- On a Citus cluster, whose tables are distributed already, no table can have a trigger.
do $$
declare
  emptied text;
begin
  if exists (select from pg_attribute where attrelid = 'live_changes'::regclass and attname = 'shard_key') then
    return;
  end if;
  create trigger directory after insert or delete or update of
    name, plan, service_state, suspended_at, default_project_id, default_endpoint_id, grace_ends_at, created_at
    on organizations for each row execute function queue_directory_row('organization_id');
  create trigger directory after insert or delete or update
    on projects for each row execute function queue_directory_row('project_id');
  create trigger directory after insert or delete or update
    on credential_addresses for each row execute function queue_directory_row('credential_id');
  create trigger directory after insert or delete or update of
    name, preset, scopes, digest, previous_digest, previous_ends_at, created_at, expires_at, revoked_at, version
    on credentials for each row execute function queue_directory_row('project_id', 'credential_id');
  create trigger directory after insert or delete or update
    on relay_topics for each row execute function queue_directory_row('topic_id');
  create trigger directory after insert or delete or update of
    alias, kind, url_box, relay, relay_group, relay_topic_id, lifecycle, disabled_at, disabled_reason, canceled_until,
    generation, origin_kind, origin_namespace, origin_name, origin_uid, origin_owned_fields, created_at, updated_at, removed_at
    on callback_endpoints for each row execute function queue_directory_row('project_id', 'endpoint_id');
  create trigger directory after insert or delete or update
    on signing_secrets for each row execute function queue_directory_row('project_id', 'endpoint_id', 'version');
  foreach emptied in array array['organizations', 'projects', 'credential_addresses', 'credentials', 'relay_topics',
    'callback_endpoints', 'signing_secrets']
  loop
    execute format('create trigger directory_emptied after truncate on %I execute function fill_directory_again()', emptied);
  end loop;
end $$;

do $$
declare
  made regprocedure;
begin
  for made in
    select oid from pg_proc where pronamespace = quote_ident(current_schema())::regnamespace and proname in (
      'queue_directory_rows', 'raise_directory_numbers', 'queue_directory_row', 'fill_directory_again')
  loop
    execute format('alter function %s set search_path = %I, pg_temp', made, current_schema());
    execute format('revoke execute on function %s from public', made);
  end loop;
end $$;
