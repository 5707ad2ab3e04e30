// Reduces what undici or Node throws to the class of a failed attempt. Error texts stay inside: they hold addresses and
// names. It decides nothing about retries: retry-schedule.ts does.
import type { AttemptError } from '../sender.ts';

/** The connection led to an address that was not checked. */
export class DestinationRejectedError extends Error {
  constructor() {
    super('The connection led to an address that was not checked.');
    this.name = 'DestinationRejectedError';
  }
}

const CLASS_BY_CODE: Readonly<Record<string, AttemptError>> = {
  ETIMEDOUT: 'timeout',
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  ECONNREFUSED: 'connection_refused',
  ECONNRESET: 'connection_reset',
  ECONNABORTED: 'connection_reset',
  EPIPE: 'connection_reset',
  UND_ERR_SOCKET: 'connection_reset',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ENETDOWN: 'unreachable',
  EHOSTDOWN: 'unreachable',
  EADDRNOTAVAIL: 'unreachable',
  EACCES: 'unreachable',
  EPERM: 'unreachable',
  EPROTO: 'tls',
};

/** Codes of Node's TLS and of OpenSSL's certificate checks (nodejs.org: TLS, X509 certificate error codes). */
const TLS_CODE =
  /^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERROR_IN_C|INVALID_(CA|PURPOSE)|PATH_LENGTH_|HOSTNAME_MISMATCH)/;

/** The class of an error of undici or Node. An unknown error is `protocol`: the receiver did not speak HTTP to us. */
export function classifyAttemptError(error: unknown): AttemptError {
  if (error instanceof DestinationRejectedError) return 'destination_rejected';
  const code = errorCode(error);
  if (TLS_CODE.test(code)) return 'tls';
  const known = CLASS_BY_CODE[code];
  if (known) return known;
  // Several addresses were tried: the user can look into what the first one said.
  if (error instanceof AggregateError && error.errors.length > 0)
    return classifyAttemptError(error.errors[0]);
  if (error instanceof Error && error.cause instanceof Error) return classifyAttemptError(error.cause);
  return 'protocol';
}

/** The code of a system error; empty without one. */
export function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
