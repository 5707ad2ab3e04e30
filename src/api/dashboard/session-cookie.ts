// The cookie of the dashboard: the token of a session or an API credential, out of the reach of scripts
// (docs/contract/dashboard.md, "Sign-in"). It counts only where the dashboard itself sends it.
import { parseCookie, stringifySetCookie } from 'cookie';
import type { FastifyRequest } from 'fastify';

/** A browser keeps no more than 4,096 bytes of a cookie, its name and attributes among them. */
export const MOST_COOKIE_TOKEN = 3_800;
/** A header that a form or an image of another site cannot send. */
const DASHBOARD_HEADER = 'x-beatkeeper-dashboard';
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

export class SessionCookie {
  readonly name: string;
  readonly #isSecure: boolean;

  /** `publicUrl`: where browsers find the dashboard. */
  constructor(publicUrl: string) {
    const { protocol, hostname } = new URL(publicUrl);
    this.name = protocol === 'https:' ? '__Host-beatkeeper_session' : 'beatkeeper_session';
    this.#isSecure = protocol === 'https:' || !LOOPBACK.test(hostname);
  }

  /** The value of `Set-Cookie`. */
  set(token: string, seconds: number): string {
    return stringifySetCookie({ name: this.name, value: token, ...this.#attributes(), maxAge: seconds });
  }

  clear(): string {
    return stringifySetCookie({ name: this.name, value: '', ...this.#attributes(), maxAge: 0 });
  }

  /** The token of a request that the dashboard has sent. A cookie that is not taken counts as absent. */
  tokenOf({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>): string | undefined {
    if (headers.cookie === undefined || !isSameOrigin({ headers })) return undefined;
    const isRead = method === 'GET' || method === 'HEAD';
    if (!isRead && headers[DASHBOARD_HEADER] !== '1') return undefined;
    return parseCookie(headers.cookie)[this.name];
  }

  #attributes() {
    return { path: '/', httpOnly: true, secure: this.#isSecure, sameSite: 'strict' } as const;
  }
}

/** Browsers set the header themselves: no page of another origin can. */
export function isSameOrigin({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['sec-fetch-site'] === 'same-origin';
}
