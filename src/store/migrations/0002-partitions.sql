-- What changes the partitions of history. `api` and `sweeper` may have a database role that changes rows and no table
-- (docs/operations.md): these functions have the rights of the tables' owner, for tables of history and their partitions
-- alone. The name of a partition says its bounds, so that nobody can state others. Transactions, locks and time limits
-- are the caller's (src/store/postgres/partitions.ts, default-partition.ts).

-- Days for which history is kept, as KEPT_DAYS of src/domain/retention.ts says (a test holds them together).
create function kept_days(history text) returns integer language sql immutable as $$
  select case history when 'observations' then 30 when 'observation_buckets' then 400 end
$$;

-- The time of the partition `name`: a day or a month in UTC, or several, from the first to the last one in its name.
-- Raises if `history` is no table of history, or `name` is none that its partitions have.
create function partition_range(history text, name text) returns tstzrange language plpgsql as $$
declare
  pattern text := case history
    when 'observations' then '^observations_(\d{8})(?:_(\d{8}))?$'
    when 'observation_buckets' then '^observation_buckets_(\d{6})(?:_(\d{6}))?$' end;
  days text[] := regexp_match(name, pattern);
  unit interval := case history when 'observations' then '1 day' else '1 month' end;
  from_time timestamptz := to_date(days[1], 'YYYYMMDD')::timestamp at time zone 'UTC';
  to_time timestamptz := (to_date(coalesce(days[2], days[1]), 'YYYYMMDD') + unit) at time zone 'UTC';
begin
  if (from_time < to_time) is not true then
    raise exception '% is no partition of a table of history', coalesce(name, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  return tstzrange(from_time, to_time);
end $$;

-- As partition_range, of a partition that is to hold rows. Raises for one that ends so late that history stays for ever.
create function new_partition_range(history text, name text) returns tstzrange language plpgsql as $$
declare
  bounds tstzrange := partition_range(history, name);
begin
  if upper(bounds) > clock_timestamp() + interval '100 days' then
    raise exception '% ends too late for a new partition', name using errcode = 'object_not_in_prerequisite_state';
  end if;
  return bounds;
end $$;

-- Raises unless the time for which the rows of the partition `name` are kept is over; of observations also unless they
-- are summed up.
create function check_is_over(history text, name text) returns void language plpgsql as $$
begin
  if upper(partition_range(history, name)) > clock_timestamp() - kept_days(history) * interval '24 hours' then
    raise exception 'The rows of % are kept for % days', name, kept_days(history)
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  if history = 'observations' and upper(partition_range(history, name)) > (select day from observation_sums) then
    raise exception 'The rows of % are not summed up yet', name using errcode = 'object_not_in_prerequisite_state';
  end if;
end $$;

-- ATTACH and not PARTITION OF, which would lock the parent against every beat.
create function add_partition(history text, name text) returns void language plpgsql security definer as $$
declare
  bounds tstzrange := new_partition_range(history, name);
begin
  execute format('create table %I (like %I including all)', name, history);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)',
    history, name, lower(bounds), upper(bounds));
end $$;

create function detach_partition(history text, name text) returns void language plpgsql security definer as $$
begin
  perform check_is_over(history, name);
  execute format('alter table %I detach partition %I', history, name);
end $$;

create function drop_partition(history text, name text) returns void language plpgsql security definer as $$
begin
  perform check_is_over(history, name);
  execute format('drop table %I', name);
end $$;

-- The constraint `<name>_rows` of a default partition says that its rows belong into the partition `name`. It refuses
-- rows of other times, so it raises where a row of the next seven days would find neither a partition nor this one.
create function constrain_default(history text, name text) returns void language plpgsql security definer as $$
declare
  bounds tstzrange := new_partition_range(history, name);
  time_column text := case history when 'observations' then 'received_at' else 'bucket_start' end;
  week tstzrange := tstzrange(clock_timestamp(), clock_timestamp() + interval '7 days');
  held tstzmultirange;
begin
  select tstzmultirange(bounds) + coalesce(range_agg(partition_range(history, relname)), '{}') into held
  from pg_inherits join pg_class on pg_class.oid = inhrelid
  where inhparent = history::regclass and relname <> history || '_default';
  if not week <@ held then
    raise exception 'Rows of the next seven days would find no partition' using errcode = 'object_not_in_prerequisite_state';
  end if;
  execute format('alter table %I add constraint %I check (%I >= %L and %I < %L) not valid',
    history || '_default', name || '_rows', time_column, lower(bounds), time_column, upper(bounds));
end $$;

create function validate_default(history text, name text) returns void language plpgsql security definer as $$
begin
  perform partition_range(history, name);
  execute format('alter table %I validate constraint %I', history || '_default', name || '_rows');
end $$;

create function release_default(history text, name text) returns void language plpgsql security definer as $$
begin
  perform partition_range(history, name);
  execute format('alter table %I drop constraint if exists %I', history || '_default', name || '_rows');
end $$;

-- Makes the default partition the partition `name`, and an empty one the default. It has the constraint.
create function replace_default(history text, name text) returns void language plpgsql security definer as $$
declare
  bounds tstzrange := partition_range(history, name);
  standby text := history || '_default';
begin
  execute format('alter table %I detach partition %I', history, standby);
  execute format('alter table %I rename to %I', standby, name);
  execute format('create table %I (like %I including all)', standby, history);
  execute format('alter table %I attach partition %I default', history, standby);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)',
    history, name, lower(bounds), upper(bounds));
  execute format('alter table %I drop constraint %I', name, name || '_rows');
end $$;

-- They find the tables of this schema: pg_temp, where anybody may make tables, comes last. Only `migrate` grants them.
do $$
declare
  made regprocedure;
begin
  for made in
    select oid from pg_proc where pronamespace = quote_ident(current_schema())::regnamespace and proname in (
      'kept_days', 'partition_range', 'new_partition_range', 'check_is_over',
      'add_partition', 'detach_partition', 'drop_partition',
      'constrain_default', 'validate_default', 'release_default', 'replace_default')
  loop
    execute format('alter function %s set search_path = %I, pg_temp', made, current_schema());
    execute format('revoke execute on function %s from public', made);
  end loop;
end $$;
