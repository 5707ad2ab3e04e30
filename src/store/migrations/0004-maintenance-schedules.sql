-- Maintenance windows that come again and again (docs/contract/monitors.md). A version that does not know these columns leaves
-- them alone.
alter table monitors
  add column maintenance_schedules jsonb,
  -- When a person last ended a maintenance: no window of a schedule that had begun then goes on.
  add column maintenance_ended_at timestamptz;
create index monitors_maintained on monitors (project_id, name_key, monitor_id, jurisdiction)
  where maintenance_ends_at is not null or maintenance_schedules is not null;

-- The window of schedules that runs or comes, as of the last wake or change: for searches alone.
alter table monitor_live
  add column recurs_from_ms bigint,
  add column recurs_until_ms bigint;
