-- Monitors that depend on others, and alerts that are held or suppressed for it (docs/contract/incidents.md). A version that does
-- not know these columns leaves them alone: of what opens it sends an alert at once, and the wake that it leaves behind is set right
-- by the job held_alerts. First the live rows: beats and sweepers lock them before they read incidents and monitors.

-- When it is decided about held and suppressed alerts.
alter table monitor_live add column hold_ms bigint;
create index monitor_live_hold on monitor_live (hold_ms) where hold_ms is not null;

alter table incidents
  -- Until then its alert is held.
  add column held_until timestamptz,
  -- {"monitorId", "incidentId"}: the cause, which has an alert of its own.
  add column suppressed_by jsonb;
create index incidents_waiting on incidents (project_id, monitor_key)
  where suppressed_by is not null and held_until is null and state in ('open', 'recovering');
create index incidents_suppressed on incidents (project_id, (suppressed_by ->> 'incidentId'))
  where suppressed_by is not null;

-- A list of monitor ids, of the same project and jurisdiction.
alter table monitors add column depends_on jsonb;
create index monitors_depend on monitors (project_id) where depends_on is not null;
create index monitors_depend_on on monitors using gin (depends_on jsonb_path_ops) where depends_on is not null;
