-- The whole model. Rules (docs/architecture.md, docs/adr): tables of a project have project_id first in their primary
-- key; no foreign key crosses a project; times of the live row are bigint milliseconds of the database's clock; the
-- application generates ids.

-- Organizations and projects: small tables.

create table organizations (
  organization_id uuid primary key,
  name text not null unique,
  plan text not null default 'scale',
  service_state text not null default 'active',
  default_project_id uuid,
  default_endpoint_id text collate "C",
  active_monitors integer not null default 0,
  callback_endpoints integer not null default 0,
  -- Of the default database: what the databases of jurisdictions have, and what is reserved for them (docs/adr/0013).
  monitors_elsewhere integer not null default 0,
  endpoints_elsewhere integer not null default 0,
  -- Of a jurisdiction's: what the default database was last told of the counts, and by which report.
  monitors_told integer,
  endpoints_told integer,
  told_by bigint not null default 0,
  -- Of the state payment_grace, which always states when it ends.
  grace_ends_at timestamptz,
  -- Given by hand: the billing provider does not end it earlier.
  grace_is_given boolean not null default false,
  -- When a sweeper decides the state again.
  state_due_at timestamptz,
  -- When the organization was last served again after a suspension. What passed before it rests (docs/contract/organization.md).
  returned_at timestamptz,
  -- Since when it is suspended.
  suspended_at timestamptz,
  -- When an event of the billing provider was last applied.
  billing_reconciled_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  check (service_state <> 'payment_grace' or grace_ends_at is not null)
);
create index organizations_due on organizations (state_due_at) where state_due_at is not null;

-- Whoever changes the state, also by hand: no sweeper may have looked while it lasted. A time that is stated counts.
create function note_service() returns trigger language plpgsql as $$
begin
  if old.service_state not in ('active', 'payment_grace') and new.service_state in ('active', 'payment_grace')
    and new.returned_at is not distinct from old.returned_at then
    new.returned_at := clock_timestamp();
  end if;
  if new.service_state in ('active', 'payment_grace') then
    new.suspended_at := null;
  elsif old.service_state in ('active', 'payment_grace') and new.suspended_at is not distinct from old.suspended_at then
    new.suspended_at := clock_timestamp();
  end if;
  return new;
end $$;
revoke execute on function note_service from public;
create trigger note_service before update of service_state on organizations
  for each row execute function note_service();

-- What events of the billing provider have said. said_at is the `created` of the newest one, said_step its place within
-- that second. No foreign key: on a cluster these tables stay on the coordinator.

create table billing_subscriptions (
  subscription_id text collate "C" primary key,
  organization_id uuid not null,
  customer_id text collate "C",
  status text not null,
  plan text,
  cancel_at_period_end boolean not null,
  current_period_end timestamptz,
  trial_ends_at timestamptz,
  -- Since when it is unpaid or, when canceled, since when the service has ended.
  lapsed_at timestamptz,
  -- The last payment and what was said after it: [{saidMs, saidStep, status}].
  turns jsonb not null default '[]',
  said_at timestamptz not null,
  said_step smallint not null
);
create index billing_subscriptions_organization on billing_subscriptions (organization_id);
create index billing_subscriptions_customer on billing_subscriptions (customer_id) where customer_id is not null;

-- A dispute names its charge and no customer: the charge says whose it is, itself or by its customer's subscriptions.
create table billing_charges (
  charge_id text collate "C" primary key,
  customer_id text collate "C",
  organization_id uuid,
  received_at timestamptz not null default clock_timestamp()
);
create index billing_charges_customer on billing_charges (customer_id) where customer_id is not null;
create index billing_charges_organization on billing_charges (organization_id) where organization_id is not null;
create index billing_charges_received on billing_charges (received_at);

create table billing_disputes (
  dispute_id text collate "C" primary key,
  charge_id text collate "C" not null,
  outcome text not null,
  -- A lost one has suspended its organizations: it does so once.
  is_settled boolean not null default false,
  said_at timestamptz not null,
  said_step smallint not null
);
create index billing_disputes_charge on billing_disputes (charge_id);
create index billing_disputes_unsettled on billing_disputes (charge_id) where outcome = 'lost' and not is_settled;

-- The events that were applied: each is applied once, however often it comes.
create table billing_events (
  event_id text collate "C" primary key,
  received_at timestamptz not null default clock_timestamp()
);
create index billing_events_received on billing_events (received_at);

create table projects (
  project_id uuid primary key,
  organization_id uuid not null references organizations,
  name text not null,
  -- The application folds case and extra spaces: names are unique, ignoring both.
  name_key text collate "C" not null,
  -- The newest first.
  former_names text[] not null default '{}',
  version integer not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  unique (organization_id, name_key)
);

-- Address tables: an address or a credential finds its project by its own key; nothing else is looked up globally.

create table credential_addresses (
  credential_id text collate "C" primary key,
  project_id uuid not null
);

create table publish_addresses (
  address uuid primary key,
  project_id uuid not null,
  monitor_key uuid not null,
  -- Set on a rotated address: it works until then.
  ends_at timestamptz
);
create index publish_addresses_monitor on publish_addresses (project_id, monitor_key);
create index publish_addresses_ended on publish_addresses (ends_at) where ends_at is not null;

create table credentials (
  project_id uuid not null,
  credential_id text collate "C" not null,
  name text not null,
  preset text not null,
  scopes text[] not null default '{}',
  digest bytea not null,
  previous_digest bytea,
  previous_ends_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  version integer not null default 1,
  primary key (project_id, credential_id)
);
create index credentials_list on credentials (project_id, created_at desc, credential_id desc);
create index credentials_revoked on credentials (revoked_at) where revoked_at is not null;

-- Monitors: their configuration. Live state is in monitor_live, so that a beat updates one narrow row.

create table monitors (
  project_id uuid not null,
  monitor_key uuid not null,
  monitor_id text collate "C" not null,
  jurisdiction text not null default 'unrestricted',
  configuration_version integer not null default 1,
  name text not null,
  name_key text collate "C" not null,
  description text,
  labels jsonb not null default '{}',
  interval_seconds integer,
  schedule_cron text,
  schedule_time_zone text,
  grace_seconds integer not null default 300,
  await_first_beat boolean not null default true,
  max_runtime_seconds integer,
  recovery_beats smallint not null default 1,
  missed_beats_to_open smallint not null default 1,
  measurements jsonb not null default '{}',
  binding_kind text not null default 'organization_default',
  binding_alias text collate "C",
  inline_endpoint_id text collate "C",
  lifecycle text not null default 'active',
  restorable_until timestamptz,
  maintenance_starts_at timestamptz,
  maintenance_ends_at timestamptz,
  maintenance_reason text,
  publish_address uuid not null,
  -- The object of a cluster that declares it. The UID tells an object that was made again from the one before.
  origin_kind text,
  origin_namespace text collate "C",
  origin_name text collate "C",
  origin_uid text collate "C",
  -- The fields that objects of this name have set, as an array.
  origin_owned_fields jsonb,
  -- Since when the operator does not see the object.
  orphaned_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (project_id, monitor_key),
  unique (project_id, monitor_id, jurisdiction)
);
create index monitors_list on monitors (project_id, name_key, monitor_id, jurisdiction);
-- Partial indexes for the few monitors that are not active, and the few with a maintenance window, past or not.
create index monitors_inactive on monitors (project_id, lifecycle, name_key, monitor_id, jurisdiction)
  where lifecycle <> 'active';
create index monitors_maintenance on monitors (project_id, name_key, monitor_id, jurisdiction)
  where maintenance_ends_at is not null;
create index monitors_labels on monitors using gin (labels jsonb_path_ops);
create unique index monitors_origin on monitors (project_id, origin_kind, origin_namespace, origin_name)
  where origin_kind is not null;
create index monitors_orphaned on monitors (project_id, name_key, monitor_id, jurisdiction)
  where orphaned_at is not null and lifecycle <> 'archived';
create index monitors_restorable on monitors (restorable_until) where restorable_until is not null;

-- The columns that each beat writes are the last ones: WAL has only what lies between the first and the last byte in
-- which the old row and the new one differ. No index has them, so that the new row stays on the page of the old one and
-- no index gets an entry (docs/adr/0002, 0004).
create table monitor_live (
  project_id uuid not null,
  monitor_key uuid not null,
  sweep_bucket smallint not null,
  missed_count smallint not null default 0,
  open_incidents smallint not null default 0,
  -- The next gap spans a pause, a window or an incident.
  gap_broken boolean not null default false,
  -- The configuration version that this row was computed for: a writer with another version in its cache reloads it.
  configuration_version integer not null,
  -- When a sweeper looks at the monitor: at its next wake (late mark, deadline, overdue run, maintenance end), or before
  -- it, where a beat has put it off.
  wake_ms bigint,
  first_beat_ms bigint,
  last_duration_ms bigint,
  -- Learned cadence: the last 20 gaps in ms.
  cadence_ms bigint,
  gaps integer[],
  -- [{"runId": "…"|null, "startedMs": 0}], oldest first, bounded.
  open_runs jsonb,
  -- The first deadline of this silence, where outages of the service have moved it or deadlines have passed.
  unmoved_ms bigint,
  -- The deadline that passed while the organization was suspended: none runs before its return.
  rests_since_ms bigint,
  -- Beats that the service could not take: arrival of the first and the newest, and how many.
  excused_from_ms bigint,
  excused_ms bigint,
  excused_beats integer,
  -- When a violated rule becomes graver by the time alone: null for nearly every monitor.
  escalates_ms bigint,
  -- Keeps a third of each page free, which fillfactor cannot: under it Postgres prunes a page at each update, and writes
  -- WAL for it, until the page is as free as that. The first change of a row takes it away, when the row grows.
  room text default repeat(' ', 96),
  deadline_ms bigint,
  last_sequence bigint not null default 0,
  last_beat_ms bigint,
  last_success_ms bigint,
  -- The running deadline counts from here: the last success or fail, or the start of the clock.
  anchor_ms bigint,
  -- Token bucket of beat_cadence.
  tokens_ms bigint,
  changed_xid xid8 not null default pg_current_xact_id(),
  tokens real,
  -- What the rules of the monitor remember of its past successes: null for every monitor without rules. A cache: what is lost is
  -- built again from the observations (docs/adr/0009).
  rule_states text,
  primary key (project_id, monitor_key)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index monitor_live_wake on monitor_live (sweep_bucket, wake_ms) where wake_ms is not null;
create index monitor_live_rests on monitor_live (project_id, monitor_key) where rests_since_ms is not null;

-- Which live rows a transaction changed: where the status feed looks. A batch of beats has one row, whatever its projects,
-- and a change of the API has one; the sweeper deletes them after a minute or two. All changes of the transactions from
-- live_changes_floor.floor_xid on are here. No row has a key: its identity is all of it, for those who replicate tables.
create table live_changes (
  changed_xid xid8 not null default pg_current_xact_id(),
  -- uuid_hash(project_id) of each monitor key.
  project_hashes integer[] not null,
  monitor_keys uuid[] not null
);
alter table live_changes replica identity full;
create index live_changes_xid on live_changes (changed_xid);
create table live_changes_floor (
  is_only_row boolean primary key default true check (is_only_row),
  floor_xid xid8 not null,
  -- The floor after this one: every transaction before it had ended at that moment.
  next_xid xid8 not null,
  next_at timestamptz not null,
  -- What is below is deleted: an old snapshot elsewhere keeps its entries in the index.
  deleted_xid xid8 not null
);
insert into live_changes_floor (floor_xid, next_xid, next_at, deleted_xid) values ('0', '0', clock_timestamp(), '0');

-- One row per configuration version: the change record, and the configuration after it.
create table monitor_changes (
  project_id uuid not null,
  monitor_key uuid not null,
  configuration_version integer not null,
  kind text not null,
  action text,
  lifecycle_from text,
  lifecycle_to text,
  maintenance jsonb,
  configuration jsonb not null,
  actor jsonb not null,
  occurred_at timestamptz not null,
  source_request_id text,
  primary key (project_id, monitor_key, configuration_version)
);

-- History. The sweeper creates and drops day partitions; the default partition catches rows without one.
-- No foreign key: the rows of a deleted monitor are unreachable (monitor_key is never reused) and go with their day.

create table observations (
  project_id uuid not null,
  monitor_key uuid not null,
  sequence bigint not null,
  received_at timestamptz not null,
  kind text not null,
  late boolean not null default false,
  observed_at timestamptz,
  duration_seconds double precision,
  exit_status smallint,
  run_id text collate "C",
  message text,
  measurements jsonb,
  violations jsonb
) partition by range (received_at);
-- Not unique and without the project, because it is the largest thing in the database and half of what a beat writes: a
-- monitor_key has one project, and its live row, which is locked, gives each sequence once. Rows are never updated, and
-- deleted with their partition, or before it where a plan keeps fewer.
create index observations_monitor on observations (monitor_key, sequence);
create table observations_default partition of observations default;

-- The observations of an hour, summed up. A mean and no sum: a sum of finite numbers may be none.
create table observation_buckets (
  project_id uuid not null,
  monitor_key uuid not null,
  measurement text collate "C" not null,
  bucket_start timestamptz not null,
  count bigint not null,
  minimum double precision,
  maximum double precision,
  mean double precision,
  -- Of beat gaps alone: the last success or fail of the hour, from which the next gap counts, and the first observation
  -- of any kind.
  last_at timestamptz,
  first_sequence bigint,
  primary key (project_id, monitor_key, measurement, bucket_start)
) partition by range (bucket_start);
create table observation_buckets_default partition of observation_buckets default;

-- How far observations are summed up: all days that are over, together, in pieces of monitors by key.
create table observation_sums (
  is_only_row boolean primary key default true check (is_only_row),
  -- The start of the first day that is not summed up. Every day before it may be dropped.
  day timestamptz not null,
  -- The end of the days under way. Set when they are over, with the transaction that sets it: every one that may write
  -- into them is before it.
  until timestamptz,
  closing_xid xid8,
  -- The last monitor of the pieces that are done; of one with very many observations up to which one, else null.
  done_project_id uuid,
  done_monitor_key uuid,
  done_sequence bigint
);
insert into observation_sums (day) values (date_trunc('day', clock_timestamp(), 'UTC'));

-- A beat that is sent again under its Idempotency-Key counts once. Kept for an hour.
create table beat_keys (
  project_id uuid not null,
  monitor_key uuid not null,
  key text collate "C" not null,
  answer jsonb not null,
  expires_at timestamptz not null,
  primary key (project_id, monitor_key, key)
);
create index beat_keys_expiry on beat_keys (expires_at);

-- Incidents. They outlive their monitor by 30 days, so they hold a copy of what they show of it.

create table incidents (
  project_id uuid not null,
  incident_id text collate "C" not null,
  monitor_key uuid not null,
  monitor_id text collate "C" not null,
  jurisdiction text not null,
  kind text not null,
  state text not null,
  severity text not null,
  measurement text collate "C",
  rule text,
  opened_at timestamptz not null,
  deadline_at timestamptz,
  recovering_at timestamptz,
  recovered_at timestamptz,
  resolved_at timestamptz,
  acknowledged_at timestamptz,
  acknowledged_by jsonb,
  open_sequence bigint,
  last_sequence bigint,
  violation_count integer not null default 1,
  summary text not null,
  -- Consecutive conforming beats while recovering.
  recovery_count smallint not null default 0,
  -- Events sent so far. The next event has the next sequence.
  event_sequence integer not null default 0,
  -- When the last opened or reopened alert was written. The next one is at least five minutes later.
  alerted_at timestamptz,
  -- When it last opened again, and the deadline that was missed then.
  reopened_at timestamptz,
  reopened_deadline_at timestamptz,
  -- Set when the monitor is deleted. The row is deleted 30 days later.
  monitor_deleted_at timestamptz,
  -- Of the first entry of the timeline, `opened`, which has no row of its own.
  opened_detail jsonb,
  primary key (project_id, incident_id)
);
-- At most one incident that has not ended per cause, also when two processes open it at once.
create unique index incidents_one_open on incidents
  (project_id, monitor_key, kind, coalesce(measurement, ''), coalesce(rule, ''))
  where state in ('open', 'recovering');
-- Ids are made from opened_at, so the primary key has the order of the list (docs/adr/0011). The list of a monitor goes by
-- the public id, which also finds the incidents of a deleted one; the few that have not ended are in incidents_one_open.
-- Thousands open at once, of monitors all over this index, and each would write a page of it.
create index incidents_monitor_ended on incidents (project_id, monitor_id, incident_id)
  where state in ('recovered', 'resolved');
create index incidents_deleted on incidents (monitor_deleted_at) where monitor_deleted_at is not null;

create table timeline_entries (
  project_id uuid not null,
  incident_id text collate "C" not null,
  entry_id uuid not null,
  at timestamptz not null,
  type text not null,
  from_state text,
  to_state text,
  actor jsonb,
  note text,
  delivery jsonb,
  detail jsonb,
  -- The order of the list: a page is one range of it.
  primary key (project_id, incident_id, at, entry_id)
);

-- Callback endpoints. Addresses and secrets are encrypted (store/postgres/secret-box.ts). A sealed value begins with the
-- id of its key, which Postgres reads into a column of its own: the values of one key are found and counted by an index.

create table callback_endpoints (
  project_id uuid not null,
  endpoint_id text collate "C" not null,
  alias text collate "C",
  kind text not null,
  url_box bytea,
  url_key_id text collate "C"
    generated always as (encode(substring(url_box from 3 for get_byte(url_box, 1)), 'escape')) stored,
  relay jsonb,
  relay_group jsonb,
  -- Of a relay kind: the topic to which it sends.
  relay_topic_id uuid,
  lifecycle text not null default 'active',
  disabled_at timestamptz,
  disabled_reason text,
  -- What was created until then is canceled: the endpoint was disabled at that moment. Stays when it is active again.
  canceled_until timestamptz,
  generation bigint not null default 1,
  -- Set on the endpoint of an inline binding, which serves one monitor and is in no list.
  monitor_key uuid,
  -- As of a monitor.
  origin_kind text,
  origin_namespace text collate "C",
  origin_name text collate "C",
  origin_uid text collate "C",
  origin_owned_fields jsonb,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  removed_at timestamptz,
  last_delivery jsonb,
  primary key (project_id, endpoint_id)
);
create unique index callback_endpoints_alias on callback_endpoints (project_id, alias)
  where removed_at is null and alias is not null;
create unique index callback_endpoints_origin
  on callback_endpoints (project_id, origin_kind, origin_namespace, origin_name) where origin_kind is not null;
create index callback_endpoints_list on callback_endpoints (project_id, created_at desc, endpoint_id desc)
  where removed_at is null and monitor_key is null;
create index callback_endpoints_key on callback_endpoints (url_key_id, project_id, endpoint_id)
  where url_key_id is not null;
create index callback_endpoints_removed_alias on callback_endpoints (project_id, alias) where removed_at is not null;

-- Topics of the messaging relay: one for a person at a notifier, and one for the whole organization, whose actor_id is
-- empty. Who knows a topic may read it. The endpoints of all projects name it by its id, so that a new topic of a person serves
-- them all.
create table relay_topics (
  topic_id uuid primary key,
  organization_id uuid not null,
  notifier_id text collate "C" not null,
  actor_id text collate "C" not null,
  -- Null: its key is lost for good (docs/operations.md). The next connection makes a new topic.
  topic_box bytea,
  topic_key_id text collate "C"
    generated always as (encode(substring(topic_box from 3 for get_byte(topic_box, 1)), 'escape')) stored,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create unique index relay_topics_actor on relay_topics (organization_id, notifier_id, actor_id);
create index relay_topics_key on relay_topics (topic_key_id, topic_id);

-- One row per change, numbered in each endpoint: the generation after it, and of an address its origin alone.
create table endpoint_changes (
  project_id uuid not null,
  endpoint_id text collate "C" not null,
  change_number integer not null,
  generation bigint not null,
  kind text not null,
  action text not null,
  lifecycle_from text,
  lifecycle_to text,
  details jsonb not null,
  actor jsonb not null,
  occurred_at timestamptz not null,
  source_request_id text,
  -- Set when the endpoint is removed.
  expires_at timestamptz,
  primary key (project_id, endpoint_id, change_number)
);
create index endpoint_changes_expiry on endpoint_changes (expires_at) where expires_at is not null;

create table signing_secrets (
  project_id uuid not null,
  endpoint_id text collate "C" not null,
  version integer not null,
  secret_box bytea not null,
  secret_key_id text collate "C"
    generated always as (encode(substring(secret_box from 3 for get_byte(secret_box, 1)), 'escape')) stored,
  issued_at timestamptz not null,
  -- Set by a rotation: the secret signs until then.
  ends_at timestamptz,
  primary key (project_id, endpoint_id, version)
);
create index signing_secrets_key on signing_secrets (secret_key_id, project_id, endpoint_id, version);
create index signing_secrets_ended on signing_secrets (ends_at) where ends_at is not null;

-- Deliveries: the row is the queue, and its lease names the sender.

create table deliveries (
  project_id uuid not null,
  delivery_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  -- project_id is the project of the monitor; the organization's default endpoint may belong to another project.
  endpoint_project_id uuid not null,
  incident_id text collate "C",
  monitor_key uuid,
  monitor_id text collate "C",
  event text not null,
  sequence integer,
  webhook_id text collate "C" not null,
  redelivery_of text collate "C",
  created_at timestamptz not null,
  body text not null,
  -- Columns that change are last: the write-ahead log of an update on the same page omits the common prefix of both
  -- versions.
  state text not null default 'pending',
  attempt_count smallint not null default 0,
  next_attempt_at timestamptz,
  lease_until timestamptz,
  lease_owner uuid,
  delivered_at timestamptz,
  ended_at timestamptz,
  -- The first attempt. Nearly all deliveries have no other: delivery_attempts has those.
  first_at timestamptz,
  first_status_code smallint,
  first_latency_ms integer,
  first_error text,
  primary key (project_id, delivery_id)
  -- Room for the row version that a claim writes: it needs no index entry, so the table and its indexes take less disk.
) with (fillfactor = 50);
-- Ids are made from created_at, so the primary key has the order of the list.
create index deliveries_incident on deliveries (project_id, incident_id, sequence);
create index deliveries_endpoint on deliveries (project_id, endpoint_id, delivery_id);
-- For the rare states. Nearly all rows are delivered, and the primary key finds those; pending rows are in the next
-- index for a short time, so that a delivery that succeeds never enters this one.
create index deliveries_state on deliveries (project_id, state, delivery_id)
  where state in ('failing', 'exhausted', 'canceled');
-- Used by the dispatcher too: what each project has to send to each endpoint, in the order in which it is due.
create index deliveries_endpoint_pending on deliveries (endpoint_project_id, endpoint_id, project_id, next_attempt_at)
  where state in ('pending', 'failing');
-- For the deletion of a monitor. Not by the project first: claims would take it for the index of an incident's events.
create index deliveries_monitor_pending on deliveries (monitor_key) where state in ('pending', 'failing');
-- A test delivery that is asked for twice under one Idempotency-Key is sent once.
create unique index deliveries_test on deliveries (project_id, webhook_id)
  where event = 'callback.test' and redelivery_of is null;
create index deliveries_ended on deliveries (ended_at) where ended_at is not null;

-- Cancellations that are under way: of the deliveries to an endpoint, or of a monitor, that were created until a moment.
-- Sweepers cancel so many at a time, and delete the row when none is left.
create table cancellations (
  cancellation_id bigint generated always as identity primary key,
  -- Of the endpoint or the monitor.
  project_id uuid not null,
  endpoint_id text collate "C",
  monitor_key uuid,
  reason text not null,
  actor jsonb,
  until_at timestamptz not null,
  -- The one whose last turn was the longest ago is next.
  turn_at timestamptz not null default clock_timestamp()
);
create index cancellations_turn on cancellations (turn_at);

-- From the second on.
create table delivery_attempts (
  project_id uuid not null,
  delivery_id text collate "C" not null,
  attempt smallint not null,
  at timestamptz not null,
  status_code smallint,
  latency_ms integer,
  error text,
  primary key (project_id, delivery_id, attempt)
);

create table drafts (
  project_id uuid not null,
  draft_id text collate "C" not null,
  monitor_key uuid not null,
  version integer not null default 1,
  base_configuration_version integer not null,
  applied_configuration_version integer,
  status text not null default 'open',
  proposal jsonb not null,
  history jsonb not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  closed_at timestamptz,
  primary key (project_id, draft_id)
);
-- Ids are made from the creation: a list has their order.
create index drafts_monitor on drafts (project_id, monitor_key, draft_id);
create index drafts_open_of_monitor on drafts (project_id, monitor_key) where status = 'open';
create index drafts_open on drafts (updated_at) where status = 'open';
create index drafts_closed on drafts (closed_at) where closed_at is not null;

-- scope_id: the project, or the organization for writes outside of projects.
create table idempotency_records (
  scope_id uuid not null,
  key text collate "C" not null,
  fingerprint bytea not null,
  status smallint not null,
  headers jsonb not null default '{}',
  -- Encrypted: a body may have callback addresses.
  body_box bytea,
  body_key_id text collate "C"
    generated always as (encode(substring(body_box from 3 for get_byte(body_box, 1)), 'escape')) stored,
  created_at timestamptz not null,
  primary key (scope_id, key)
);
create index idempotency_records_age on idempotency_records (created_at);
create index idempotency_records_key on idempotency_records (body_key_id, created_at) where body_key_id is not null;

-- What a project has used in a month, which begins with `period`. Of an organization: its calls that are in no project.
create table usage_counters (
  project_id uuid not null,
  period date not null,
  -- active_monitors, beats, deliveries, stored_observations or api_requests.
  dimension text not null,
  value bigint not null default 0,
  primary key (project_id, period, dimension)
);
-- How far deliveries, monitors and observations of days that are over are counted, in pieces of projects by id.
create table usage_count (
  is_only_row boolean primary key default true check (is_only_row),
  -- The start of the first day that is not counted.
  day timestamptz not null,
  -- The last project of the pieces that are done.
  done_project_id uuid
);
insert into usage_count (day) values (date_trunc('day', clock_timestamp(), 'UTC'));

-- Requests of all api replicas in a minute. Each replica settles about once a second. When the minute is over for a while
-- they are added to usage_counters.
create table rate_windows (
  project_id uuid not null,
  window_start bigint not null,
  used bigint not null,
  primary key (project_id, window_start)
);
create index rate_windows_start on rate_windows (window_start);

-- The life of the installation itself.

-- One row per process of the role api, of the last day. Moments of the database's clock.
create table service_clock (
  api_id uuid primary key,
  -- Where balancers send to it: a process that starts there takes its place.
  address text not null,
  -- Every beat that reached it before is committed, or its excuse is.
  decided_ms bigint not null,
  -- Its last sign of life.
  seen_ms bigint not null,
  ended boolean not null default false
);
create index service_clock_running on service_clock (api_id) where not ended;
-- Two outages may have the same span.
create table service_outages (
  outage_id bigint generated always as identity primary key,
  from_ms bigint not null,
  to_ms bigint not null,
  -- Whether every incident that was open names it. Until then: the last monitor whose incidents do.
  told boolean not null default false,
  told_project_id uuid,
  told_monitor_key uuid
);
create index service_outages_to on service_outages (to_ms);
create index service_outages_untold on service_outages (outage_id) where not told;

-- One row per ingest lane: shows, after a lost answer to COMMIT, whether the batch was committed.
create table ingest_lanes (
  lane_id uuid primary key,
  last_batch bigint not null,
  updated_at timestamptz not null
);

-- Jobs of one sweeper at a time (partitions, retention): held by a lease, not by a lock.
create table sweeper_leases (
  name text primary key,
  owner uuid not null,
  until_at timestamptz not null,
  last_done_at timestamptz
);
