// Whether the API takes the operator's token, by its answers, and which of them the fault quotes.
import { describe, expect, it } from 'vitest';
import { ApiProblem } from '../../../src/client/api-problem.ts';
import { SignIn } from '../../../src/operator/known/sign-in.ts';

const answer = (status: number, code: string) => new ApiProblem({ status, code, detail: `Told ${status}.` });
const REFUSED = answer(401, 'service.authentication_required');
const AWAY = answer(503, 'service.temporarily_unavailable');
const fault = async (signIn: SignIn) => await signIn.findFault('/nowhere/token');

describe('the sign-in of the operator', () => {
  it.each([REFUSED, answer(403, 'service.permission_denied')])(
    'an answer $status $code refuses the token, also one that was accepted',
    async (refusal) => {
      const signIn = new SignIn();
      signIn.accept();
      signIn.fail(refusal);
      expect(await fault(signIn)).toMatch(/^The API refuses the operator's token\./);
      expect(await fault(signIn)).toContain(refusal.message);
    },
  );

  it('a 403 for another reason says nothing of the token', async () => {
    const signIn = new SignIn();
    signIn.accept();
    signIn.fail(answer(403, 'service.service_suspended'));
    expect(await fault(signIn)).toBeUndefined();
  });

  it('while the token is refused, the fault quotes the refusal and not a later failure', async () => {
    const signIn = new SignIn();
    signIn.fail(REFUSED);
    signIn.fail(AWAY);
    expect(await fault(signIn)).toContain(REFUSED.message);
    expect(await fault(signIn)).not.toContain(AWAY.message);
  });

  it('before the first success the fault quotes the last failure', async () => {
    const signIn = new SignIn();
    signIn.fail(answer(500, 'service.internal'));
    signIn.fail(AWAY);
    expect(await fault(signIn)).toContain(AWAY.message);
  });
});
