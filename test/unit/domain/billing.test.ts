// What subscriptions mean for the service of an organization: grace, end, return, abuse, and the order of events.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterEvent,
  isOlder,
  type Said,
  SUBSCRIPTION_STATUSES,
  type Subscription,
  type SubscriptionFacts,
} from '../../../src/domain/billing.ts';
import { DAY_MS } from '../../../src/domain/retention.ts';
import {
  findDecisive,
  nextStanding,
  type OrganizationStanding,
  standingOf,
} from '../../../src/domain/standing.ts';

const START = Date.UTC(2026, 0, 1);
const day = (days: number) => START + days * DAY_MS;
const said = (saidMs: number, saidStep: Said['saidStep'] = 1): Said => ({ saidMs, saidStep });
type Status = SubscriptionFacts['status'];
const facts = (status: Status, more: Partial<SubscriptionFacts> = {}): SubscriptionFacts => ({
  subscriptionId: 'sub_1',
  organizationId: 'org',
  status,
  plan: 'smart',
  cancelAtPeriodEnd: false,
  ...more,
});

/** The subscription after these statuses, each with its day, as they come. */
function subscriptionAfter(...events: [Status, number][]): Subscription {
  let known: Subscription | undefined;
  for (const [status, days] of events) known = afterEvent(known, facts(status), said(day(days)));
  if (!known) throw new Error('no event');
  return known;
}

describe('the state that a subscription gives', () => {
  it.each<[string, [Status, number][], [number, ReturnType<typeof standingOf>][]]>([
    ['a paid one is active', [['active', 0]], [[400, { state: 'active' }]]],
    ['a trial is active', [['trialing', 0]], [[400, { state: 'active' }]]],
    [
      'an unpaid one has a grace of 14 days, is canceled for 30 days, and then deleting',
      [
        ['active', 0],
        ['past_due', 1],
      ],
      [
        [1, { state: 'payment_grace', graceEndsMs: day(15), dueMs: day(15) }],
        [14.99, { state: 'payment_grace', graceEndsMs: day(15), dueMs: day(15) }],
        [15, { state: 'canceled', dueMs: day(45) }],
        [44.99, { state: 'canceled', dueMs: day(45) }],
        [45, { state: 'deleting' }],
      ],
    ],
    [
      'a grace counts from the first unpaid event, also where a later one says so in another word',
      [
        ['past_due', 1],
        ['past_due', 5],
        ['unpaid', 9],
      ],
      [[10, { state: 'payment_grace', graceEndsMs: day(15), dueMs: day(15) }]],
    ],
    [
      'a grace that was paid begins anew',
      [
        ['past_due', 1],
        ['active', 5],
        ['past_due', 9],
      ],
      [[10, { state: 'payment_grace', graceEndsMs: day(23), dueMs: day(23) }]],
    ],
    [
      'a trial that ended without a means of payment has a grace',
      [['paused', 0]],
      [[14, { state: 'canceled', dueMs: day(44) }]],
    ],
    ['a canceled one ends at once', [['canceled', 3]], [[3, { state: 'canceled', dueMs: day(33) }]]],
    [
      'a cancellation after the grace does not put off what the end of the grace began',
      [
        ['past_due', 0],
        ['canceled', 20],
        ['canceled', 25],
      ],
      [[26, { state: 'canceled', dueMs: day(44) }]],
    ],
    [
      'a cancellation within the grace ends it',
      [
        ['past_due', 0],
        ['canceled', 5],
      ],
      [[6, { state: 'canceled', dueMs: day(35) }]],
    ],
    [
      'a payment returns a deleting one to active',
      [
        ['canceled', 0],
        ['active', 60],
      ],
      [[60, { state: 'active' }]],
    ],
    [
      'a payment that comes after what it is older than begins the grace anew',
      [
        ['past_due', 0],
        ['past_due', 30],
        ['past_due', 35],
        ['active', 29],
      ],
      [[36, { state: 'payment_grace', graceEndsMs: day(44), dueMs: day(44) }]],
    ],
    [
      'a cancellation that comes before the unpaid invoice counts from the end of the grace',
      [
        ['canceled', 20],
        ['past_due', 0],
      ],
      [[26, { state: 'canceled', dueMs: day(44) }]],
    ],
    ['one that never began changes nothing', [['incomplete', 0]], [[1, undefined]]],
    ['one that never began and has ended changes nothing', [['incomplete_expired', 0]], [[1, undefined]]],
  ])('%s', (_title, events, expected) => {
    for (const [days, standing] of expected)
      expect(standingOf(subscriptionAfter(...events), day(days))).toEqual(standing);
  });
});

describe('the order of events', () => {
  it('an event that is older than what is known is older, and of one second the step decides', () => {
    expect(isOlder(said(1), said(2))).toBe(true);
    expect(isOlder(said(2), said(1))).toBe(false);
    expect(isOlder(said(2, 1), said(2, 2))).toBe(true);
    expect(isOlder(said(2, 1), said(2, 1))).toBe(false);
  });

  const status = fc.constantFrom(...SUBSCRIPTION_STATUSES.filter((one) => one !== 'none'));
  it('in whatever order and how often events come, they give the subscription that they give in their own order', () => {
    const events = fc.uniqueArray(fc.tuple(status, fc.integer({ min: 0, max: 99 })), {
      minLength: 1,
      selector: ([, days]) => days,
    });
    fc.assert(
      fc.property(
        events.chain((all) =>
          fc.tuple(fc.constant(all), fc.shuffledSubarray([...all, ...all], { minLength: all.length * 2 })),
        ),
        ([all, arriving]) => {
          const { turns: _one, ...inOrder } = subscriptionAfter(...all.toSorted(([, a], [, b]) => a - b));
          const { turns: _other, ...known } = subscriptionAfter(...arriving);
          expect(known).toEqual(inOrder);
        },
      ),
    );
  });

  it('what is kept of the order has a bound, and does not forget since when nobody pays', () => {
    const events = Array.from({ length: 500 }, (_, days): [Status, number] => ['unpaid', days]);
    const { turns, lapsedMs } = subscriptionAfter(['active', -1], ...events);
    expect(turns).toHaveLength(100);
    expect(lapsedMs).toBe(day(0));
    expect(subscriptionAfter(...events, ['active', 500]).turns).toHaveLength(1);
  });

  it('time alone leads only downwards: active stays, a grace is canceled, and canceled is deleting', () => {
    const order = ['active', 'payment_grace', 'canceled', 'deleting'];
    fc.assert(
      fc.property(status, fc.nat(100), fc.nat(100), (one, a, b) => {
        const [sooner, later] = [Math.min(a, b), Math.max(a, b)].map((days) =>
          order.indexOf(standingOf(subscriptionAfter([one, 0]), day(days))?.state ?? 'active'),
        );
        expect(sooner).toBeLessThanOrEqual(later ?? -1);
      }),
    );
  });
});

describe('several subscriptions', () => {
  const other = (status: Status, days: number, more: Partial<SubscriptionFacts> = {}) =>
    afterEvent(undefined, facts(status, { subscriptionId: `sub_${days}`, ...more }), said(day(days)));
  const decisive = (...all: Subscription[]) => {
    const forwards = findDecisive(all, day(50))?.subscription.subscriptionId;
    expect(findDecisive(all.toReversed(), day(50))?.subscription.subscriptionId).toBe(forwards);
    return forwards;
  };

  it('the best service decides: the end of an old subscription does not end what a new one pays for', () => {
    expect(decisive(other('active', 10), other('canceled', 20))).toBe('sub_10');
    expect(decisive(other('past_due', 40), other('canceled', 20))).toBe('sub_40');
    expect(decisive(other('canceled', 30), other('incomplete', 40))).toBe('sub_30');
    expect(decisive(other('incomplete', 40), other('incomplete_expired', 30))).toBe('sub_40');
  });

  it('of two that have ended the one that ended last decides, of two that are paid the larger plan', () => {
    expect(decisive(other('canceled', 10), other('canceled', 20))).toBe('sub_20');
    expect(decisive(other('active', 10, { plan: 'scale' }), other('active', 20, { plan: 'free' }))).toBe(
      'sub_10',
    );
    expect(findDecisive([], day(0))).toBeUndefined();
  });
});

describe('how an organization stands', () => {
  const free: OrganizationStanding = { serviceState: 'active', plan: 'free' };
  const with_ = (status: Status, at: number, now = at) =>
    findDecisive([subscriptionAfter([status, at])], day(now));

  it('a subscription gives its plan while it is served, and its end leaves the plan', () => {
    expect(nextStanding(free, with_('active', 0), { nowMs: START, isLost: false })).toMatchObject({
      serviceState: 'active',
      plan: 'smart',
    });
    expect(nextStanding(free, with_('past_due', 0), { nowMs: START, isLost: false })).toMatchObject({
      plan: 'smart',
      graceEndsMs: day(14),
    });
    expect(nextStanding(free, with_('canceled', 0), { nowMs: START, isLost: false })).toMatchObject({
      serviceState: 'canceled',
      plan: 'free',
    });
    expect(nextStanding(free, with_('incomplete', 0), { nowMs: START, isLost: false })).toMatchObject(free);
    expect(nextStanding(free, undefined, { nowMs: START, isLost: false })).toMatchObject(free);
  });

  it('a lost dispute suspends, and no payment lifts it', () => {
    const abused = nextStanding(free, with_('past_due', 0), { nowMs: START, isLost: true });
    expect(abused).toMatchObject({ serviceState: 'abuse_suspended', graceEndsMs: undefined });
    expect(nextStanding(abused, with_('active', 1), { nowMs: START, isLost: false }).serviceState).toBe(
      'abuse_suspended',
    );
    const lifted = { ...abused, serviceState: 'active' as const };
    expect(nextStanding(lifted, with_('active', 1), { nowMs: START, isLost: false }).serviceState).toBe(
      'active',
    );
  });

  it('a grace that somebody has given by hand keeps its end', () => {
    const given: OrganizationStanding = { serviceState: 'payment_grace', plan: 'free', graceEndsMs: day(9) };
    expect(nextStanding(given, undefined, { nowMs: START, isLost: false })).toMatchObject({
      serviceState: 'payment_grace',
      graceEndsMs: day(9),
    });
  });

  it('a grace that somebody has given by hand outlives what the subscription says until its end, and a payment ends it', () => {
    const given: OrganizationStanding = {
      ...{ serviceState: 'payment_grace', plan: 'free', graceEndsMs: day(9), isGraceGiven: true },
    };
    const settle = (status: Status, at: number, now: number, isLost = false) =>
      nextStanding(given, with_(status, at, now), { nowMs: day(now), isLost });
    const kept = { serviceState: 'payment_grace', graceEndsMs: day(9), dueMs: day(9), isGraceGiven: true };
    expect(settle('canceled', 0, 8)).toMatchObject(kept);
    expect(settle('past_due', -30, 8)).toMatchObject(kept);
    expect(settle('canceled', 0, 9)).toMatchObject({ serviceState: 'canceled', isGraceGiven: false });
    expect(settle('active', 0, 8)).toMatchObject({ serviceState: 'active', graceEndsMs: undefined });
    expect(settle('past_due', 0, 8)).toMatchObject({ graceEndsMs: day(14), isGraceGiven: false });
    expect(settle('active', 0, 8, true)).toMatchObject({ serviceState: 'abuse_suspended' });
  });
});
