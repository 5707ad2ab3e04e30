// The cookie of the dashboard by the address at which a browser finds it.
import { expect, it } from 'vitest';
import { SessionCookie } from '../../../src/api/dashboard/session-cookie.ts';

const PUBLIC = 'https://beatkeeper.example.com';

it.each([
  [PUBLIC, 'beatkeeper.example.com', 'http', '__Host-beatkeeper_session', true],
  [PUBLIC, 'beatkeeper.example.com', 'https', '__Host-beatkeeper_session', true],
  [PUBLIC, '127.0.0.1:40123', 'http', 'beatkeeper_session', false],
  [PUBLIC, 'localhost:40123', 'http', 'beatkeeper_session', false],
  [PUBLIC, '127.0.0.1.example.com', 'http', '__Host-beatkeeper_session', true],
  [PUBLIC, '127.0.0.1:8443', 'https', '__Host-beatkeeper_session', true],
  ['http://beatkeeper.svc', 'beatkeeper.svc', 'http', 'beatkeeper_session', true],
  ['http://127.0.0.1:8080', '127.0.0.1:8080', 'http', 'beatkeeper_session', false],
] as const)('of %s, asked at %s by %s, is %s', (publicUrl, host, protocol, name, isSecure) => {
  const cookie = new SessionCookie(publicUrl);
  const headers = { host };
  const set = cookie.set({ headers, protocol }, 'a-token', 60);
  expect(set).toMatch(new RegExp(`^${name}=a-token; Max-Age=60; Path=/; HttpOnly;`));
  expect(set.includes('; Secure')).toBe(isSecure);
  const sent = {
    method: 'GET',
    headers: { ...headers, cookie: `${name}=a-token`, 'sec-fetch-site': 'same-origin' },
    protocol,
  };
  expect(cookie.tokenOf(sent)).toBe('a-token');
  expect(cookie.clear({ headers, protocol })).toMatch(new RegExp(`^${name}=; Max-Age=0;`));
});
