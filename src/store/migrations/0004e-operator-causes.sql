-- Causes of missed beats that operators see (docs/contract/incidents.md, "Causes that the operator sees"). A version that does not
-- know them leaves them alone, and sends an alert for each monitor. They are few; no statement joins them with rows of projects.

-- One row from the first monitor that it concerns to the last one. One that comes back later is another one, with alerts of its own.
create table operator_causes (
  cause_id uuid primary key,
  organization_id uuid not null,
  operator_id text collate "C" not null,
  cause text not null,
  object text collate "C" not null,
  since_ms bigint not null,
  ended_ms bigint
);
create unique index operator_causes_now on operator_causes (organization_id, operator_id, cause, object) where ended_ms is null;
create index operator_causes_ended on operator_causes (ended_ms) where ended_ms is not null;

-- The cause of a monitor now, or its last one. It counts while that operator beats the monitor.
create table caused_monitors (
  project_id uuid not null,
  monitor_key uuid not null,
  organization_id uuid not null,
  operator_id text collate "C" not null,
  cause_id uuid not null,
  since_ms bigint not null,
  ended_ms bigint,
  primary key (project_id, monitor_key, operator_id)
);
create index caused_monitors_now on caused_monitors (organization_id, operator_id) where ended_ms is null;
create index caused_monitors_cause on caused_monitors (cause_id);
create index caused_monitors_ended on caused_monitors (ended_ms) where ended_ms is not null;

-- The monitor whose alerts name the cause at an endpoint. The key makes it one, however many sweepers there are. scope_id: the
-- project whose monitors it stands for; the nil UUID of a cause that nobody can bring about for others, and that is all projects'.
create table cause_alerts (
  cause_id uuid not null,
  endpoint_project_id uuid not null,
  endpoint_id text collate "C" not null,
  scope_id uuid not null,
  monitor_key uuid not null,
  primary key (cause_id, endpoint_project_id, endpoint_id, scope_id)
);
