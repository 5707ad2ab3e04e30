-- Maintenance windows that come again and again (docs/contract/monitors.md). A version that does not know these columns leaves
-- them alone. First the live rows: beats and sweepers lock them before they read monitors.

-- The window that runs or comes, as of the last wake or change, where there are schedules: for searches alone.
alter table monitor_live
  add column recurs_from_ms bigint,
  add column recurs_until_ms bigint;

alter table monitors
  add column maintenance_schedules jsonb,
  -- A person has ended a window of schedules: none that begins before this counts.
  add column recurs_since timestamptz;
