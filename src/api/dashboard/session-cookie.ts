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
  readonly #publicUrl: URL;

  /** `publicUrl`: where browsers find the dashboard, but for those that reach it through a forwarded port. */
  constructor(publicUrl: string) {
    this.#publicUrl = new URL(publicUrl);
  }

  /** The value of `Set-Cookie`. */
  set(request: Sender, token: string, seconds: number): string {
    return stringifySetCookie({ ...this.#attributesFor(request), value: token, maxAge: seconds });
  }

  clear(request: Sender): string {
    return stringifySetCookie({ ...this.#attributesFor(request), value: '', maxAge: 0 });
  }

  /** The token of a request that the dashboard has sent. A cookie that is not taken counts as absent. */
  tokenOf(request: Sender & Pick<FastifyRequest, 'method'>): string | undefined {
    const { method, headers } = request;
    if (headers.cookie === undefined || !isSameOrigin(request)) return undefined;
    const isRead = method === 'GET' || method === 'HEAD';
    if (!isRead && headers[DASHBOARD_HEADER] !== '1') return undefined;
    return parseCookie(headers.cookie)[this.#attributesFor(request).name];
  }

  #attributesFor({ headers, protocol }: Sender) {
    const { protocol: scheme, hostname } = this.#publicUrl;
    // A browser on this machine, such as one behind `kubectl port-forward`: over http it keeps no Secure cookie.
    const isForwarded = protocol === 'http' && LOOPBACK.test(headers.host?.replace(/:\d+$/, '') ?? '');
    const isHttps = scheme === 'https:' && !isForwarded;
    return {
      name: isHttps ? '__Host-beatkeeper_session' : 'beatkeeper_session',
      path: '/',
      httpOnly: true,
      secure: isHttps || (!isForwarded && !LOOPBACK.test(hostname)),
      sameSite: 'strict',
    } as const;
  }
}

type Sender = Pick<FastifyRequest, 'headers' | 'protocol'>;

/** Browsers set the header themselves: no page of another origin can. */
export function isSameOrigin({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['sec-fetch-site'] === 'same-origin';
}
