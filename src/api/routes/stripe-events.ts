// POST /billing/stripe: signed events of Stripe (docs/contract/organization.md). It is no operation of /v1: Stripe has no
// token, and its signature says who it is.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ProblemError } from '../../domain/problem.ts';
import { type StripeDeps, StripeReceiver } from '../billing/stripe-receiver.ts';
import { WaitingBodies } from '../billing/waiting-bodies.ts';
import { sendProblem } from '../http/problem.ts';

const MAX_EVENT_BYTES = 1_048_576;
const MAX_WAITING_BODIES = 32;

export async function registerStripeEvents(app: FastifyInstance, deps: StripeDeps): Promise<void> {
  const receiver = await StripeReceiver.open(deps);
  const bodies = new WaitingBodies(MAX_WAITING_BODIES);
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    const parse = async ({ raw }: FastifyRequest, bytes: Buffer): Promise<Buffer> => {
      bodies.end(raw);
      if (!raw.complete) throw tooLarge();
      return bytes;
    };
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_EVENT_BYTES }, parse);
    scope.setErrorHandler((error, request, reply) => {
      const isTooLarge = (error as { code?: string }).code === 'FST_ERR_CTP_BODY_TOO_LARGE';
      return sendProblem(request, reply, isTooLarge ? tooLarge() : error);
    });
    scope.route({
      method: 'POST',
      url: '/billing/stripe',
      // Before the body is read.
      onRequest: async (request) => {
        if (request.headers['stripe-signature'] === undefined) throw receiver.refuseUnsigned();
        bodies.begin(request.raw);
      },
      handler: async (request, reply) => {
        const { body = Buffer.alloc(0), headers } = request;
        const outcome = await receiver.receive(body as Buffer, String(headers['stripe-signature']));
        return await reply.header('cache-control', 'no-store').send({ outcome });
      },
    });
  });
}

function tooLarge(): ProblemError {
  return new ProblemError('payload_too_large', {
    detail: 'The body is too large, or comes in too many small chunks: send at most 1 MiB.',
  });
}
