// The headers RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-10) on answers to calls that count
// (docs/contract/calls.md). rate-limit.ts counts.
import type { FastifyInstance } from 'fastify';
import { HEADER } from '../../contract/fields/headers.ts';
import type { RateState } from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set when the call has counted. */
    rate: RateState | undefined;
  }
}

const NAME = '"api_requests_per_minute"';

/** The minute is the calendar's: `t` is what is left of it. */
export function registerRateHeaders(app: FastifyInstance): void {
  app.decorateRequest('rate', undefined);
  app.addHook('onSend', ({ rate }, reply, _payload, done) => {
    if (rate) {
      reply
        .header(HEADER.rateLimitPolicy, `${NAME};q=${rate.limit};w=60`)
        .header(HEADER.rateLimit, `${NAME};r=${rate.remaining};t=${rate.secondsLeft}`);
    }
    done();
  });
}
