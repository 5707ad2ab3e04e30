-- What an operator that signs does not vouch for (docs/contract/deadlines.md, "While no operator leads"): the parts of its
-- monitors of which it has not told all yet, or that it cannot see.

-- By part, a project or a monitor of one: the last sign without it, ms of the database's clock. Null: there is none.
alter table operator_signs add column behind jsonb;

-- The spans of a part, written with the sign that has it no more: outages for its monitors alone.
create table operator_part_outages (
  organization_id uuid not null,
  operator_id text not null,
  -- `<project>` or `<project> <monitor>`.
  part text not null,
  to_ms bigint not null,
  from_ms bigint not null,
  primary key (organization_id, operator_id, to_ms, part)
);
-- For those that are kept no more.
create index operator_part_outages_to on operator_part_outages (to_ms);
