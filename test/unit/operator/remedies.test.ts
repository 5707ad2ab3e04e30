// Which refusals of the API depend on the installation, and what their messages say.
import { describe, expect, it } from 'vitest';
import { ApiProblem } from '../../../src/client/api-problem.ts';
import { problemText } from '../../../src/operator/resources/problem-text.ts';
import { mayEndByItself } from '../../../src/operator/resources/remedies.ts';

const refusal = (
  status: number,
  code: string,
  more: Partial<ConstructorParameters<typeof ApiProblem>[0]> = {},
) => new ApiProblem({ status, code: `service.${code}`, detail: 'No.', ...more });
const field = (code: string, path: string) => ({ fieldErrors: [{ code, message: 'No.', path }] });

describe('a refusal of the API', () => {
  it.each([
    [
      'a private destination',
      refusal(400, 'callback_destination_rejected', field('address_not_allowed', 'callback.url')),
      'callbacks.allowedPrivateDestinations',
    ],
    [
      'plain http',
      refusal(400, 'validation_failed', field('invalid_scheme', 'url')),
      'callbacks.allowedPrivateDestinations',
    ],
    [
      'a host without addresses',
      refusal(400, 'callback_destination_rejected', field('host_not_found', 'url')),
      undefined,
    ],
    ['a limit of the plan', refusal(403, 'plan_limit_reached'), 'plan'],
    ['a token', refusal(401, 'authentication_required'), 'auth.clusterIssuer'],
    ['a missing right', refusal(403, 'permission_denied'), undefined],
    ['a suspension', refusal(403, 'service_suspended'), undefined],
    ['a relay', refusal(409, 'relay_not_configured'), 'relay.url'],
    [
      'an unknown notifier',
      refusal(400, 'validation_failed', field('unknown_notifier', 'relayGroup.notifierId')),
      'relay.notifiers',
    ],
    [
      'a person who is not connected',
      refusal(409, 'conflict', field('not_connected', 'relay.actorId')),
      undefined,
    ],
    ['an alias that is taken', refusal(409, 'conflict', field('not_unique', 'alias')), undefined],
  ])('%s may be accepted later, and the message names the value of the chart', (_of, problem, value) => {
    expect(mayEndByItself(problem)).toBe(true);
    const text = problemText(problem);
    if (value === undefined) expect(text).not.toContain('chart');
    else expect(text).toMatch(new RegExp(`chart's value ${value}\\b`.replace('.', '\\.')));
  });

  it('of a limit the message also names the value that changes what a plan allows: no plan is larger than the default', () => {
    expect(problemText(refusal(403, 'plan_limit_reached'))).toContain('its value plans what a plan allows');
  });

  it.each([
    refusal(400, 'validation_failed', field('invalid', 'name')),
    refusal(409, 'conflict', field('not_unique', 'endpointId')),
    refusal(413, 'payload_too_large'),
  ])('$code is final until the object changes', (problem) => {
    expect(mayEndByItself(problem)).toBe(false);
    expect(problemText(problem)).not.toContain('chart');
  });
});
