// Issues session tokens for development, where there is no identity provider, and serves its public keys on loopback.
// The state keeps its key and its name, so that tokens outlive a restart, also on another port.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';
import type { State } from './state.ts';

const ALGORITHM = 'ES256';
const AUDIENCE = 'beatkeeper';
const DAY_SECONDS = 86_400;
/** Of ports to listen on. */
const MOST_TRIES = 10;

export interface DevelopmentIssuer {
  /** Its entry in BEATKEEPER_ISSUERS. */
  settings: object;
  sign(person: Person): Promise<string>;
  close(): Promise<void>;
}

export interface Person {
  subject: string;
  role: 'viewer' | 'member' | 'owner';
  organization: string;
  /** From now; negative for an expired token. Default: a day. */
  lifeSeconds?: number;
}

/** Starts the issuer on a port of the state. */
export async function startDevelopmentIssuer(state: State): Promise<DevelopmentIssuer> {
  const privateJwk = (state.values.issuerKey as JWK | undefined) ?? (await newKey());
  state.values.issuerKey = { ...privateJwk };
  const { kty, crv, x, y } = privateJwk;
  const kid = await calculateJwkThumbprint(privateJwk);
  const publicJwk = { kty, crv, x, y, kid, alg: ALGORITHM, use: 'sig' };
  const key = await importJWK(privateJwk, ALGORITHM);
  const { server, address } = await listenOnPort(state);
  state.values.issuer ??= address;
  const { issuer } = state.values;
  const jwksUri = `${address}/jwks.json`;
  serve(server, {
    '/.well-known/openid-configuration': {
      issuer,
      jwks_uri: jwksUri,
      id_token_signing_alg_values_supported: [ALGORITHM],
      response_types_supported: ['id_token'],
      subject_types_supported: ['public'],
    },
    '/jwks.json': { keys: [publicJwk] },
  });
  return {
    settings: {
      ...{ issuer, audience: AUDIENCE, jwksUri },
      ...{ organizationClaim: 'organization', roleClaim: 'role' },
      roles: { viewer: 'viewer', member: 'member', owner: 'owner' },
    },
    async sign({ subject, role, organization, lifeSeconds = DAY_SECONDS }) {
      const now = Math.floor(Date.now() / 1_000);
      return await new SignJWT({ role, organization, name: subject })
        .setProtectedHeader({ alg: ALGORITHM, kid, typ: 'JWT' })
        .setIssuer(issuer)
        .setAudience(AUDIENCE)
        .setSubject(subject)
        // Some seconds ago: a service whose clock is a little behind must accept the token at once.
        .setIssuedAt(now - DAY_SECONDS * (lifeSeconds < 0 ? 1 : 0) - 5)
        .setExpirationTime(now + lifeSeconds)
        .sign(key);
    },
    close: () => closeServer(server),
  };
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  return await exportJWK(privateKey);
}

/** A port that was free a moment ago may be taken now: then another one. */
async function listenOnPort(state: State): Promise<{ server: Server; address: string }> {
  for (let tries = 1; ; tries += 1) {
    const server = createServer();
    const port = await state.port('issuer');
    server.listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
      return { server, address: `http://127.0.0.1:${port}` };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || tries === MOST_TRIES) throw error;
    }
  }
}

function serve(server: Server, documents: Record<string, object>): void {
  server.on('request', (request, response) => {
    const path = request.url?.split('?')[0] ?? '';
    const document = Object.hasOwn(documents, path) ? documents[path] : undefined;
    response.writeHead(document ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(document ?? { error: 'not_found' }));
  });
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}
