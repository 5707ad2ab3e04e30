// The parts of a claim's statement: which of the due deliveries of a queue may be sent now, and which go behind an earlier
// event. On Citus the rows of each table must be bound to one shard (docs/adr/0012).

import { fromMillis } from '../postgres/moments.ts';

/** SQL that binds the rows of an alias to the shard of the claim: nothing on one Postgres. */
export type Place = (alias: string) => string;
export const ANYWHERE: Place = () => '';

/** The first due rows of the queue `k`. However many are due, a claim looks at no more of them. */
const looked = (place: Place, looks: string) => `select d.ctid, d.* from deliveries d
  where d.endpoint_project_id = k.endpoint_project_id and d.endpoint_id = k.endpoint_id and d.project_id = k.project_id${place('d')}
    and d.state in ('pending', 'failing') and d.next_attempt_at <= moment.now_at
    and d.next_attempt_at >= ${fromMillis('k.since_ms')}
    and (d.lease_until is null or d.lease_until <= moment.now_at)
  order by d.next_attempt_at
  limit k.places + ${looks}`;

/** The events for which `d` waits: the earlier ones of its incident (index deliveries_incident). */
const earlier = (place: Place) => `deliveries e
  where e.project_id = d.project_id and e.incident_id = d.incident_id and e.sequence < d.sequence
    and e.state in ('pending', 'failing') and e.redelivery_of is null${place('e')}`;

/** The first of those, unless an attempt to it is under way: then it may end at any moment, and `d` stays where it is. */
const firstEarlier = (
  place: Place,
) => `select e.* from (select e.* from ${earlier(place)} order by e.sequence limit 1) e
  where e.lease_until is null or e.lease_until <= moment.now_at`;

// An event that waits goes behind the one for which it waits, so that claims pass it once for each attempt to that one
// and not again and again. The end of an endpoint ends all of its deliveries, so at one endpoint nothing can go out
// before that. At another endpoint, or from before a disabling of this one, the event before may be canceled at any time: it
// is looked at again when it has waited longer by a twentieth.
export const placeBehind = (place: Place) => `(select case
    when e.endpoint_project_id = d.endpoint_project_id and e.endpoint_id = d.endpoint_id and not exists (
      select from callback_endpoints c
      where c.project_id = e.endpoint_project_id and c.endpoint_id = e.endpoint_id and e.created_at <= c.canceled_until
      offset 0)
      then e.next_attempt_at + (d.sequence - e.sequence) * interval '1 microsecond'
    else moment.now_at + greatest(interval '250 milliseconds',
      least(e.next_attempt_at - moment.now_at, (moment.now_at - d.created_at) / 20)) end
  from moment cross join lateral (${firstEarlier(place)}) e)`;

// The events of an incident are sent in order: each waits until those before it have ended
// (docs/contract/incidents.md). Nothing waits for a redelivery. Where a queue has less to send than it has places, what
// waits there goes behind (`placeBehind`). `for update` locks a row by its place (`ctid`, which nobody changes while we
// hold the lock); a row that changed between our snapshot and the lock is left to the next claim.
//
// The planner knows neither how many places a claim has nor how few rows it takes. Where many deliveries wait it would
// join by reading the table. So the updates find each row where the lock found it, OFFSET keeps the sub-select a probe of
// the index for each row, and the sub-selects in `unnest` hide the length of the arrays: a plan for a few queues looks
// cheaper than the generic one, so Postgres would plan again each time.
//
// CTEs `due`, what is claimed, and `behind`, what moves: places in the table, under their locks. Parameters $1 to $5 are
// what is wanted; `looks` is how many rows it looks at in a queue beyond its places.
export const claimedPlaces = (
  place: Place,
  looks: string,
) => `moment as materialized (select clock_timestamp() as now_at),
  wanted as materialized (
    select * from unnest((select $1::uuid[]), (select $2::uuid[]), (select $3::text[]), (select $4::integer[]),
      (select $5::bigint[])) with ordinality
      as k (project_id, endpoint_project_id, endpoint_id, places, since_ms, place)),
  due as materialized (
    select k.place, c.* from wanted k cross join moment
    cross join lateral (
      select l.ctid from (${looked(place, looks)}) d
      cross join lateral (select l.ctid from deliveries l where l.ctid = d.ctid${place('l')} for update skip locked) l
      where not exists (select from ${earlier(place)} offset 0)
      limit k.places) c),
  behind as materialized (
    select k.place, l.ctid from wanted k
    left join (select due.place, count(*) as taken from due group by due.place) t on t.place = k.place
    cross join moment
    cross join lateral (${looked(place, looks)}) d
    cross join lateral (select ${placeBehind(place)} > d.next_attempt_at as is_later) b
    cross join lateral (
      select l.ctid from deliveries l where l.ctid = d.ctid and b.is_later${place('l')} for update skip locked) l
    where coalesce(t.taken, 0) < k.places)`;
