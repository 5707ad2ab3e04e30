-- What changes the partitions of history. `api` and `sweeper` may have a database role that changes rows and no table
-- (docs/operations.md): these functions have the rights of the tables' owner, for tables of history and their partitions
-- alone. Transactions, locks and time limits are the caller's (src/store/postgres/partitions.ts, default-partition.ts).

-- Raises if `history` is no table of history, or `name` is none that its partitions have.
create function check_partition(history text, name text) returns void language plpgsql as $$
begin
  if (history in ('observations', 'observation_buckets')
      and name ~ ('^' || history || '_([0-9]{6}|[0-9]{8})(_([0-9]{6}|[0-9]{8}))?$')) is not true then
    raise exception '% is no partition of a table of history', coalesce(name, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
end $$;

-- ATTACH and not PARTITION OF, which would lock the parent against every beat.
create function add_partition(history text, name text, from_time timestamptz, to_time timestamptz) returns void
language plpgsql security definer as $$
begin
  perform check_partition(history, name);
  execute format('create table %I (like %I including all)', name, history);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', history, name, from_time, to_time);
end $$;

create function detach_partition(history text, name text) returns void language plpgsql security definer as $$
begin
  perform check_partition(history, name);
  execute format('alter table %I detach partition %I', history, name);
end $$;

create function drop_partition(history text, name text) returns void language plpgsql security definer as $$
begin
  perform check_partition(history, name);
  execute format('drop table %I', name);
end $$;

-- The constraint `<name>_rows` of a default partition says that its rows belong into the partition `name`.

create function constrain_default(history text, name text, from_time timestamptz, to_time timestamptz) returns void
language plpgsql security definer as $$
declare
  time_column text := case history when 'observations' then 'received_at' else 'bucket_start' end;
begin
  perform check_partition(history, name);
  execute format('alter table %I add constraint %I check (%I >= %L and %I < %L) not valid',
    history || '_default', name || '_rows', time_column, from_time, time_column, to_time);
end $$;

create function validate_default(history text, name text) returns void language plpgsql security definer as $$
begin
  perform check_partition(history, name);
  execute format('alter table %I validate constraint %I', history || '_default', name || '_rows');
end $$;

create function release_default(history text, name text) returns void language plpgsql security definer as $$
begin
  perform check_partition(history, name);
  execute format('alter table %I drop constraint if exists %I', history || '_default', name || '_rows');
end $$;

-- Makes the default partition the partition `name`, and an empty one the default.
create function replace_default(history text, name text, from_time timestamptz, to_time timestamptz) returns void
language plpgsql security definer as $$
declare
  standby text := history || '_default';
begin
  perform check_partition(history, name);
  execute format('alter table %I detach partition %I', history, standby);
  execute format('alter table %I rename to %I', standby, name);
  execute format('create table %I (like %I including all)', standby, history);
  execute format('alter table %I attach partition %I default', history, standby);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', history, name, from_time, to_time);
  execute format('alter table %I drop constraint %I', name, name || '_rows');
end $$;

-- They find the tables of this schema: pg_temp, where anybody may make tables, comes last. Only `migrate` grants them.
do $$
declare
  made regprocedure;
begin
  for made in
    select oid from pg_proc where pronamespace = quote_ident(current_schema())::regnamespace and proname in (
      'check_partition', 'add_partition', 'detach_partition', 'drop_partition',
      'constrain_default', 'validate_default', 'release_default', 'replace_default')
  loop
    execute format('alter function %s set search_path = %I, pg_temp', made, current_schema());
    execute format('revoke execute on function %s from public', made);
  end loop;
end $$;
