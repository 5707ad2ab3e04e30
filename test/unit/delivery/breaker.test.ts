import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { admit, type BreakerState, CLOSED_BREAKER, record } from '../../../src/delivery/endpoint-gate.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/** Results of attempts that began while it was closed, one a second. */
function stateAfter(results: string, startMs = 0, state: BreakerState = CLOSED_BREAKER): BreakerState {
  return [...results].reduce(
    (current, result, index) =>
      record(current, { admittedAs: 'attempt', failed: result === 'x' }, startMs + index * SECOND_MS),
    state,
  );
}

describe('the breaker', () => {
  it.each([
    ['xxxx', 'closed'],
    ['xxxxx', 'open'],
    ['..xxx', 'open'],
    ['...xx', 'closed'],
    ['...xxx', 'open'],
    ['xxxx.', 'closed'],
    ['xxxx.x', 'open'],
    ['xx......', 'closed'],
    ['', 'closed'],
  ])('the breaker after attempts %j is %s', (results, kind) => {
    expect(stateAfter(results).kind).toBe(kind);
  });

  it('the breaker forgets attempts of more than five minutes ago', () => {
    expect(stateAfter('x', 5 * MINUTE_MS + 4 * SECOND_MS, stateAfter('xxxx')).kind).toBe('closed');
    expect(stateAfter('x', 4 * MINUTE_MS, stateAfter('xxxx')).kind).toBe('open');
  });

  it('the breaker opens for 30 s, lets one probe through, doubles up to ten minutes, and closes after a success', () => {
    let state = stateAfter('xxxxx');
    let nowMs = 4 * SECOND_MS;
    for (const openSeconds of [30, 60, 120, 240, 480, 600, 600]) {
      const untilMs = nowMs + openSeconds * SECOND_MS;
      expect(admit(state, untilMs - 1)).toMatchObject({ kind: 'refused', retryAtMs: untilMs });
      const probe = admit(state, untilMs);
      expect(probe.kind).toBe('probe');
      expect(admit(probe.state, untilMs + 1).kind).toBe('refused');
      nowMs = untilMs + SECOND_MS;
      state = record(probe.state, { admittedAs: 'probe', failed: true }, nowMs);
    }
    const probe = admit(state, nowMs + 600 * SECOND_MS);
    expect(record(probe.state, { admittedAs: 'probe', failed: false }, nowMs)).toEqual(CLOSED_BREAKER);
  });

  it('the breaker is not changed by attempts that began before it opened', () => {
    const open = stateAfter('xxxxx');
    expect(record(open, { admittedAs: 'attempt', failed: false }, 6 * SECOND_MS)).toBe(open);
    const probing = admit(open, MINUTE_MS).state;
    expect(record(probing, { admittedAs: 'attempt', failed: false }, MINUTE_MS)).toBe(probing);
    expect(record(probing, { admittedAs: 'attempt', failed: true }, MINUTE_MS)).toBe(probing);
  });

  it('the breaker lets another probe through when the first never ends', () => {
    const probing = admit(stateAfter('xxxxx'), MINUTE_MS).state;
    expect(admit(probing, MINUTE_MS + 29_999).kind).toBe('refused');
    expect(admit(probing, MINUTE_MS + 30_000).kind).toBe('probe');
  });

  it('the breaker agrees with a plain list of attempts over any history', () => {
    const steps = fc.array(
      fc.record({ waitMs: fc.integer({ min: 0, max: 90 * SECOND_MS }), failed: fc.boolean() }),
      { maxLength: 200 },
    );
    fc.assert(fc.property(steps, (history) => compareWithModel(history)));
  });

  it('the state of the breaker is bounded, however busy the endpoint is', () => {
    let state: BreakerState = CLOSED_BREAKER;
    for (let index = 0; index < 20_000; index += 1) {
      state = record(state, { admittedAs: 'attempt', failed: false }, index * 50);
    }
    expect(state.kind === 'closed' ? state.slices.length : -1).toBeLessThanOrEqual(31);
  });
});

/** The model: every result since it last closed, with its time. It is exact but for slices of ten seconds. */
function compareWithModel(history: { waitMs: number; failed: boolean }[]): void {
  let nowMs = 1_000_000;
  let state: BreakerState = CLOSED_BREAKER;
  let seen: { atMs: number; failed: boolean }[] = [];
  let openedAtMs: number | undefined;
  let openMs = 0;
  for (const { waitMs, failed } of history) {
    nowMs += waitMs;
    const admission = admit(state, nowMs);
    const expected = openedAtMs === undefined ? 'attempt' : nowMs < openedAtMs + openMs ? 'refused' : 'probe';
    expect(admission.kind).toBe(expected);
    if (admission.kind === 'refused') {
      expect(admission.retryAtMs).toBe((openedAtMs ?? 0) + openMs);
      continue;
    }
    state = record(admission.state, { admittedAs: admission.kind, failed }, nowMs);
    if (admission.kind === 'probe') {
      openedAtMs = failed ? nowMs : undefined;
      openMs = Math.min(openMs * 2, 10 * MINUTE_MS);
      seen = [];
      continue;
    }
    seen.push({ atMs: nowMs, failed });
    const sliceStart = Math.floor(nowMs / 10_000) * 10_000;
    const recent = seen.filter(({ atMs }) => atMs >= sliceStart - 5 * MINUTE_MS + 10_000);
    const failures = recent.filter((attempt) => attempt.failed).length;
    if (failed && recent.length >= 5 && failures * 2 >= recent.length) {
      openedAtMs = nowMs;
      openMs = 30 * SECOND_MS;
      seen = [];
    }
  }
}
