// When the operator asks again whether the API sends to an address, and what it makes of the answers.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiProblem } from '../../../src/client/api-problem.ts';
import { DESTINATION_REJECTED, findDestinationFault } from '../../../src/operator/pass/destination.ts';
import type { Pass } from '../../../src/operator/pass/kind.ts';
import type { KnownDestination } from '../../../src/operator/pass/object.ts';
import { callbackObject } from './resources.ts';

const PERIOD_MS = 600_000;
const url = 'https://alerts.internal/a';
const fault = { reason: DESTINATION_REJECTED, message: 'No.' };

function problem(code: string, status = 400): ApiProblem {
  const fieldErrors = [{ code, message: 'No.', path: 'url' }];
  return new ApiProblem({
    status,
    code: 'service.callback_destination_rejected',
    detail: 'No.',
    fieldErrors,
  });
}

describe('the question whether the API still sends to an address', () => {
  let pass: Pass;
  const ask = vi.fn<() => Promise<void>>();
  beforeEach(() => {
    ask.mockReset().mockResolvedValue(undefined);
    const object = callbackObject();
    pass = {
      ...{ object, memory: {}, signal: new AbortController().signal, fields: {} },
      dueInMs: Number.POSITIVE_INFINITY,
    };
  });
  const find = (address = url) =>
    findDestinationFault(pass, { url: address, periodMs: PERIOD_MS, ask, explain: ({ detail }) => detail });
  const know = (known: Partial<KnownDestination>) => {
    pass.memory.destination = { url, fault: undefined, dueAtMs: 0, ...known };
  };
  const waitMs = () => (pass.memory.destination?.dueAtMs ?? 0) - performance.now();

  it('is asked first in the second half of the period, and then once a period', async () => {
    expect(await find()).toBeUndefined();
    expect(ask).not.toHaveBeenCalled();
    expect(waitMs()).toBeGreaterThan(PERIOD_MS * 0.45);
    know({ dueAtMs: 0 });
    expect(await find()).toBeUndefined();
    expect(await find()).toBeUndefined();
    expect(ask).toHaveBeenCalledTimes(1);
    expect(waitMs()).toBeGreaterThan(PERIOD_MS * 0.75);
  });

  it('is asked at once after a restart where the status says that it is rejected', async () => {
    const lastTransitionTime = new Date(0).toISOString();
    const ready = { type: 'Ready', status: 'False', ...fault, lastTransitionTime } as const;
    pass.object = callbackObject({}, {}, { conditions: [ready] });
    ask.mockRejectedValue(problem('address_not_allowed'));
    expect((await find())?.reason).toBe(DESTINATION_REJECTED);
  });

  it('keeps after a restart what the status says, while DNS gives no answer', async () => {
    const lastTransitionTime = new Date(0).toISOString();
    const ready = { type: 'Ready', status: 'False', ...fault, lastTransitionTime } as const;
    pass.object = callbackObject({}, {}, { conditions: [ready] });
    ask.mockRejectedValue(problem('host_not_found'));
    expect(await find()).toEqual(fault);
    // And from then on what it has found out.
    know({ dueAtMs: 0 });
    expect(await find()).toBeUndefined();
  });

  it('is open again for another address', async () => {
    know({ fault, dueAtMs: Number.POSITIVE_INFINITY });
    expect(await find('https://example.com/b')).toBeUndefined();
    expect(pass.memory.destination?.url).toBe('https://example.com/b');
  });

  it.each([undefined, fault])('keeps its last answer while DNS gives none', async (before) => {
    for (const code of ['host_not_found', 'host_not_resolved']) {
      know({ fault: before });
      ask.mockRejectedValue(problem(code));
      expect(await find()).toBe(before);
    }
  });

  it('is left to the retries of the pass where the API gives no answer or the endpoint has changed', async () => {
    for (const status of [0, 412, 503]) {
      know({});
      ask.mockRejectedValue(problem('address_not_allowed', status));
      await expect(find()).rejects.toThrow(ApiProblem);
      expect(pass.memory.destination?.dueAtMs).toBe(0);
    }
  });
});
