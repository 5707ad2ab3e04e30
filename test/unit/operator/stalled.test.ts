// When an object is stalled: what tools that wait for it take for a failure.
import { describe, expect, it } from 'vitest';
import type { ConditionFacts, KubeCondition } from '../../../src/kube/conditions.ts';
import { faultConditions, statusOf, syncedCondition } from '../../../src/operator/pass/status.ts';
import { countStalled, STALLED_REASONS } from '../../../src/operator/stalled-objects.ts';
import { type KStatus, kstatusOf } from '../../support/kstatus.ts';
import { monitorObject, NOW } from './resources.ts';

describe('an object', () => {
  /** As a pass writes it that has found these conditions. */
  function written(conditions: readonly ConditionFacts[], before?: KubeCondition[], isObserved = true) {
    const object = monitorObject({}, {}, { observedGeneration: 3, conditions: before });
    const pass = { object, fields: {}, memory: {}, signal: new AbortController().signal, dueInMs: 0 };
    const kind = { statusOf: () => ({ fields: {}, conditions: [] }) };
    return { ...object, status: statusOf(kind, pass, { conditions, isObserved, nowMs: NOW }) };
  }
  const stalled = ({ status }: ReturnType<typeof written>) =>
    status.conditions?.find(({ type }) => type === 'Stalled');
  const ready = { type: 'Ready', status: 'True', reason: 'Available', message: 'It works.' } as const;
  const refused = written(faultConditions({ reason: 'Refused', message: 'Correct it.' }));

  it.each<[string, KStatus]>([
    ['Refused', 'Failed'],
    ['Conflict', 'Failed'],
    ['AliasConflict', 'Failed'],
    ['SecretConflict', 'Failed'],
    ['ProjectNotAllowed', 'Failed'],
    ['DestinationRejected', 'Failed'],
    ['DisabledByReceiver', 'Failed'],
    ['EndpointDisabled', 'Failed'],
    ['SecretNotFound', 'InProgress'],
    ['CallbackNotFound', 'InProgress'],
    ['NoOrganizationDefault', 'InProgress'],
  ])('an object that is not ready for the reason %s is %s to tools that wait', (reason, expected) => {
    const object = written([syncedCondition(), { ...ready, status: 'False', reason }]);
    expect(kstatusOf(object)).toBe(expected);
  });

  it('a stalled object says why in the words of Ready', () => {
    expect(stalled(refused)).toMatchObject({ status: 'True', reason: 'Refused', message: 'Correct it.' });
  });

  it('a refused object whose health nobody knows says why in Healthy, by the words of its latest fault', () => {
    const lastTransitionTime = '1970-01-01T00:00:00Z';
    const healthy = { type: 'Healthy', status: 'Unknown', reason: 'Pending', message: 'Not yet.' } as const;
    const first = written(faultConditions({ reason: 'Refused', message: 'Correct it.' }), [
      { ...healthy, lastTransitionTime },
    ]);
    const healthyOf = ({ status }: typeof first) => status.conditions?.find(({ type }) => type === 'Healthy');
    expect(healthyOf(first)).toMatchObject({ status: 'Unknown', reason: 'Refused', message: 'Correct it.' });
    const second = written(
      faultConditions({ reason: 'Conflict', message: 'Taken.' }),
      first.status.conditions,
    );
    expect(healthyOf(second)).toMatchObject({ status: 'Unknown', reason: 'Conflict', message: 'Taken.' });
    const known = { ...healthy, reason: 'Paused', lastTransitionTime };
    expect(healthyOf(written(faultConditions({ reason: 'Refused', message: 'No.' }), [known]))).toEqual(
      known,
    );
  });

  it('stalled objects count by their reason, unknown reasons together, and a reason without objects is 0', () => {
    const because = (reason: string) => written(faultConditions({ reason, message: 'Correct it.' }));
    const forged = ['Made', 'Up'].map(because);
    const objects = [refused, because('Conflict'), refused, because('CallbackNotFound'), ...forged];
    const counts = Object.fromEntries(countStalled(objects));
    const none = Object.fromEntries(STALLED_REASONS.map((reason) => [reason, 0]));
    expect(counts).toEqual({ ...none, Refused: 2, Conflict: 1, Other: 2 });
    expect(Object.fromEntries(countStalled([]))).toEqual(none);
  });

  it('an object that became ready is stalled no more', () => {
    const mended = written([syncedCondition(), ready], refused.status.conditions);
    expect(stalled(mended)).toBeUndefined();
    expect(kstatusOf(mended)).toBe('Current');
  });

  it('an API that is away changes nothing about what is stalled', () => {
    const away = syncedCondition({ reason: 'ApiUnavailable', message: 'The API does not answer.' });
    expect(stalled(written([away], refused.status.conditions, false))).toEqual(stalled(refused));
  });
});
