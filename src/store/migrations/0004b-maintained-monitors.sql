-- The few monitors with maintenance, set or of schedules. By itself: whoever reads monitors does not wait for it. It takes the
-- place of monitors_maintenance, which a version before this one still reads.
create index monitors_maintained on monitors (project_id, name_key, monitor_id, jurisdiction)
  where maintenance_ends_at is not null or maintenance_schedules is not null;
