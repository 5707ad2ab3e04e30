// The refusals of the OpenAPI document: a response for each status and set of causes, which operations refer to, with an
// example of each cause. An operation shows those alone that it can answer.
import { PROBLEMS, remediationOf } from '../../domain/problem.ts';
import { HEADER } from '../fields/headers.ts';
import { componentReference, type JsonObject } from '../json-schema.ts';
import type { OperationSpec } from '../operations/operation.ts';
import { REQUEST_ID } from './examples/records.ts';
import type { Refusal } from './examples/refusal.ts';
import { REFUSALS, refusalsOf } from './examples/refusals.ts';

/** Headers of every answer under /v1. */
export const COMMON_HEADERS: JsonObject = {
  [HEADER.requestId]: { $ref: `#/components/headers/${HEADER.requestId}` },
  [HEADER.correlationId]: { $ref: `#/components/headers/${HEADER.correlationId}` },
};

/** Headers of answers to calls whose caller is known. */
export const RATE_HEADERS: JsonObject = {
  [HEADER.rateLimitPolicy]: { $ref: `#/components/headers/${HEADER.rateLimitPolicy}` },
  [HEADER.rateLimit]: { $ref: `#/components/headers/${HEADER.rateLimit}` },
};

interface Variant {
  name: string;
  status: number;
  causes: readonly string[];
}

export class ProblemResponses {
  /** By status and causes. */
  readonly #variants = new Map<string, Variant>();

  constructor(operations: readonly OperationSpec[]) {
    for (const spec of operations) {
      for (const [status, causes] of refusalsOf(spec)) this.#add(spec, status, causes);
    }
  }

  /** A response that several operations have bears the name of the first one of them. */
  #add({ operationId }: OperationSpec, status: number, causes: string[]): void {
    const key = keyOf(status, causes);
    if (this.#variants.has(key)) return;
    const isFirst = ![...this.#variants.values()].some((variant) => variant.status === status);
    const suffix = isFirst ? '' : `${operationId[0]?.toUpperCase()}${operationId.slice(1)}`;
    this.#variants.set(key, { name: `Problem${status}${suffix}`, status, causes });
  }

  /** The errors of an operation, by status. */
  referencesOf(spec: OperationSpec): JsonObject {
    const references = [...refusalsOf(spec)].map(([status, causes]) => {
      const name = this.#variants.get(keyOf(status, causes))?.name;
      return [status, { $ref: `#/components/responses/${name}` }];
    });
    return Object.fromEntries(references);
  }

  /** `components.responses`. */
  components(): JsonObject {
    const sorted = [...this.#variants.values()].sort((a, b) => a.status - b.status);
    return Object.fromEntries(sorted.map((variant) => [variant.name, response(variant)]));
  }
}

function keyOf(status: number, causes: readonly string[]): string {
  return [status, ...causes].join(' ');
}

function response({ status, causes }: Variant): JsonObject {
  const refusals = causes.flatMap((cause) => REFUSALS[cause] ?? []);
  const codes = [...new Set(refusals.map(({ code }) => code))];
  return {
    description: codes.map((code) => `\`service.${code}\`: ${PROBLEMS[code].title}.`).join(' '),
    headers: {
      ...COMMON_HEADERS,
      ...authenticate(status),
      ...(status === 401 ? {} : RATE_HEADERS),
      ...retryAfter(status, refusals),
    },
    content: {
      'application/problem+json': {
        schema: { $ref: componentReference('Problem') },
        examples: Object.fromEntries(
          causes.map((cause) => [cause, { $ref: `#/components/examples/${cause}` }]),
        ),
      },
    },
  };
}

/** RFC 9110 11.6.1. */
function authenticate(status: number): JsonObject {
  if (status !== 401) return {};
  return { 'WWW-Authenticate': { $ref: '#/components/headers/WWW-Authenticate' } };
}

/** Always on a 429 and a 503; elsewhere where the body is retryable. */
function retryAfter(status: number, refusals: readonly Refusal[]): JsonObject {
  if (status === 429 || status === 503)
    return { 'Retry-After': { $ref: '#/components/headers/Retry-After' } };
  if (!refusals.some(({ retryAfterSeconds }) => retryAfterSeconds !== undefined)) return {};
  return {
    'Retry-After': {
      description: 'Seconds to wait. Only where `retryable` is true.',
      schema: { type: 'integer', minimum: 1 },
    },
  };
}

/** `components.examples`. */
export function problemExamples(): JsonObject {
  return Object.fromEntries(
    Object.entries(REFUSALS).map(([cause, refusal]) => [
      cause,
      { summary: refusal.summary, value: problemOf(refusal) },
    ]),
  );
}

/** The body of an example. */
export function problemOf({
  code,
  detail,
  fieldErrors,
  limit,
  holder,
  retryAfterSeconds,
}: Refusal): JsonObject {
  const { title, status, retryable } = PROBLEMS[code];
  const remediation = remediationOf(code);
  return {
    type: `/docs/problems/${code}`,
    title,
    status,
    detail,
    code: `service.${code}`,
    correlationId: REQUEST_ID,
    retryable: retryable || retryAfterSeconds !== undefined,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(fieldErrors ? { fieldErrors } : {}),
    ...(remediation ? { remediation } : {}),
    ...(limit ? { limit } : {}),
    ...holder,
  };
}
