// What a poll of the outbox found, and for how long that serves. Pure: (state, event, now) -> state, with times of
// `performance.now()`. It reads no database.
import type { EndpointRef } from '../../store/callbacks/callback-endpoints.ts';

/** Endpoints that one poll finds. */
export const MAX_POLLED = 10_000;
/**
 * A poll costs a probe of the index for each endpoint at which anything waits: what it found serves three times as long
 * as it took.
 */
const SERVES = 3;
/** But no longer than this, on a machine of any pace: what another process adds to the outbox waits for the next poll. */
const SERVES_MS = 250;

/** `after`: where the next poll begins, when there was more than one poll finds. */
export type PollState = { readonly after?: EndpointRef } & (
  | { readonly kind: 'stale' }
  /** `isOutdated`: a delivery was added meanwhile, and the poll may have come too early for it. */
  | { readonly kind: 'polling'; readonly startedAt: number; readonly isOutdated: boolean }
  | { readonly kind: 'fresh'; readonly due: readonly EndpointRef[]; readonly untilAt: number }
);

export type PollEvent =
  | { type: 'begun' }
  | { type: 'found'; due: readonly EndpointRef[] }
  /** A delivery was added to the outbox in this process. */
  | { type: 'added' };

/** A poll that fails is not an event: the next run begins another one. */
export function nextPoll(state: PollState, event: PollEvent, now: number): PollState {
  const { after } = state;
  switch (event.type) {
    case 'begun':
      return { kind: 'polling', after, startedAt: now, isOutdated: false };
    case 'found': {
      if (state.kind !== 'polling') return state;
      const { due } = event;
      const servesMs = Math.min((now - state.startedAt) * SERVES, SERVES_MS);
      return {
        kind: 'fresh',
        due,
        after: due.length === MAX_POLLED ? due.at(-1) : undefined,
        untilAt: state.isOutdated ? now : now + servesMs,
      };
    }
    case 'added':
      return state.kind === 'polling' ? { ...state, isOutdated: true } : { kind: 'stale', after };
  }
}

/** The endpoints that the last poll found, while that serves. */
export function freshDue(state: PollState, now: number): readonly EndpointRef[] | undefined {
  return state.kind === 'fresh' && now < state.untilAt ? state.due : undefined;
}
