// When the operator asks again whether the API sends to an address, and what it makes of the answers.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type {
  DestinationAnswer,
  DestinationQuestion,
} from '../../../src/operator/known/destination-checks.ts';
import { DESTINATION_REJECTED, destinationFault } from '../../../src/operator/pass/destination.ts';
import type { Pass } from '../../../src/operator/pass/kind.ts';
import type { KnownDestination } from '../../../src/operator/pass/object.ts';
import { callbackObject } from './resources.ts';

const PERIOD_MS = 600_000;
const url = 'https://alerts.internal/a';
const fault = { reason: DESTINATION_REJECTED, message: 'No.' };
const refused: DestinationAnswer = { verdict: 'refused', detail: 'The host leads elsewhere.' };

describe('the question whether the API still sends to an address', () => {
  let pass: Pass;
  let asked: DestinationQuestion[];
  const changed = vi.fn<() => void>();
  beforeEach(() => {
    changed.mockReset();
    asked = [];
    const object = callbackObject();
    pass = {
      ...{ object, memory: {}, signal: new AbortController().signal, fields: {} },
      dueInMs: Number.POSITIVE_INFINITY,
    };
  });
  const find = (address = url) =>
    destinationFault(pass, {
      ...{ projectId: 'p1', endpointId: 'cb_1', url: address, periodMs: PERIOD_MS, changed },
      checks: { ask: (question) => asked.push(question) },
    });
  const answer = (given: DestinationAnswer) => asked.at(-1)?.answered(given);
  const know = (known: Partial<KnownDestination>) => {
    pass.memory.destination = { url, fault: undefined, dueAtMs: 0, ...known };
  };
  const show = () => {
    const lastTransitionTime = new Date(0).toISOString();
    const ready = { type: 'Ready', status: 'False', ...fault, lastTransitionTime } as const;
    pass.object = callbackObject({}, {}, { conditions: [ready] });
  };
  const waitMs = () => (pass.memory.destination?.dueAtMs ?? 0) - performance.now();

  it('is due first in the second half of the period, and then once a period', () => {
    expect(find()).toBeUndefined();
    expect(waitMs()).toBeGreaterThan(PERIOD_MS * 0.45);
    know({ dueAtMs: 0 });
    expect(find()).toBeUndefined();
    answer({ verdict: 'accepted' });
    expect(waitMs()).toBeGreaterThan(PERIOD_MS * 0.75);
    const { length } = asked;
    expect(find()).toBeUndefined();
    expect(asked).toHaveLength(length);
  });

  it('is put as soon as it may go with others that are due', () => {
    know({ dueAtMs: performance.now() + PERIOD_MS * 0.7 });
    find();
    expect(asked).toMatchObject([{ dueAtMs: pass.memory.destination?.dueAtMs }]);
  });

  it('is answered for the next pass, which comes at once if the answer is another one', () => {
    know({});
    expect(find()).toBeUndefined();
    answer(refused);
    expect(changed).toHaveBeenCalledTimes(1);
    const message =
      "The API sends no alerts to this address any more. The host leads elsewhere. If this installation may send there, add it to the chart's value callbacks.allowedPrivateDestinations.";
    expect(find()).toEqual({ reason: DESTINATION_REJECTED, message });
    answer(refused);
    expect(changed).toHaveBeenCalledTimes(1);
    answer({ verdict: 'accepted' });
    expect(changed).toHaveBeenCalledTimes(2);
    expect(find()).toBeUndefined();
  });

  it('is put at once after a restart where the status says that it is rejected, and until the answer that stays', () => {
    show();
    expect(find()).toEqual(fault);
    expect(asked).toMatchObject([{ dueAtMs: 0 }]);
    expect(pass.memory.isDestinationJudged).toBe(false);
    answer({ verdict: 'unknown' });
    expect(find()).toEqual(fault);
    // A status that somebody has written is no judgement for others.
    expect(pass.memory.isDestinationJudged).toBe(false);
    know({ dueAtMs: 0, fault });
    find();
    answer({ verdict: 'accepted' });
    expect(find()).toBeUndefined();
    expect(pass.memory.isDestinationJudged).toBe(true);
  });

  it('is open again for another address, and an answer about the former one does not count', () => {
    know({ fault });
    find();
    const [former] = asked;
    expect(find('https://example.com/b')).toBeUndefined();
    former?.answered(refused);
    expect(find('https://example.com/b')).toBeUndefined();
    expect(pass.memory.destination?.url).toBe('https://example.com/b');
    expect(pass.memory.isDestinationJudged).toBe(true);
  });

  it.each([undefined, fault])('keeps its last answer while DNS gives none', (before) => {
    know({ fault: before });
    expect(find()).toBe(before);
    answer({ verdict: 'unknown' });
    expect(find()).toBe(before);
    expect(changed).not.toHaveBeenCalled();
    expect(waitMs()).toBeGreaterThan(PERIOD_MS * 0.75);
  });
});
