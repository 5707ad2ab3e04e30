-- Operators that beat monitors (docs/contract/deadlines.md, "While no operator leads"): which one beats a monitor, their signs of
-- life, and the spans without one. A version that does not know them leaves them alone, and judges those monitors as all others.

-- First the live rows: beats and sweepers lock them before they read monitors.
-- When a start moved the clock of a monitor that an operator beats.
alter table monitor_live add column start_moved_ms bigint;

alter table monitors add column beaten_by text;

-- Of an organization: no other one's operator signs for it. Never deleted: the silence of one that comes back after years began
-- with its last sign.
create table operator_signs (
  organization_id uuid not null,
  operator_id text not null,
  -- Its last sign of life, by the database's clock.
  seen_ms bigint not null,
  primary key (organization_id, operator_id)
);

-- Written together with the sign that ends it: two of one operator never overlap.
create table operator_outages (
  organization_id uuid not null,
  operator_id text not null,
  to_ms bigint not null,
  from_ms bigint not null,
  primary key (organization_id, operator_id, to_ms)
);
-- For those that are kept no more.
create index operator_outages_to on operator_outages (to_ms);
