// An identity provider on loopback: it publishes keys by discovery and signs tokens of any shape.
import { createServer } from 'node:http';
import {
  exportJWK,
  type GenerateKeyPairResult,
  generateKeyPair,
  type JWK,
  type JWTPayload,
  SignJWT,
} from 'jose';
import type { TrustedIssuer } from '../../src/api/auth/session-token.ts';
import { listen } from './listen.ts';

type SigningKey = { kid: string; privateKey: GenerateKeyPairResult['privateKey']; publicJwk: JWK };

export interface TokenOptions {
  claims?: JWTPayload;
  subject?: string;
  /** From now. */
  lifeSeconds?: number;
  issuer?: string;
  audience?: string;
}

export interface TokenIssuer {
  url: string;
  /** The paths of all requests so far. */
  requests: string[];
  trusted(settings: Partial<TrustedIssuer> & Pick<TrustedIssuer, 'organization' | 'roles'>): TrustedIssuer;
  sign(options?: TokenOptions): Promise<string>;
  /** Replaces the key that it signs with and publishes. */
  rotateKey(): Promise<void>;
  /** The public key that it publishes. */
  publicJwk(): JWK;
  /** Answers 500 to everything while true. */
  broken: boolean;
  close(): Promise<void>;
}

export const TEST_AUDIENCE = 'beatkeeper';

export async function startTokenIssuer(): Promise<TokenIssuer> {
  let key = await newKey();
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    requests.push(path);
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
      '/keys': { keys: [key.publicJwk] },
    };
    const document = issuer.broken ? undefined : documents[path];
    response.writeHead(document ? 200 : 500, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify(document ?? {}));
  });
  const { port, close } = await listen(server);
  const issuer: TokenIssuer = {
    url: `http://127.0.0.1:${port}`,
    requests,
    broken: false,
    trusted: (settings) => ({ issuer: issuer.url, audience: TEST_AUDIENCE, ...settings }),
    async sign({ claims = {}, subject = 'someone', lifeSeconds = 3_600, ...named } = {}) {
      const now = Math.floor(Date.now() / 1_000);
      return await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', kid: key.kid })
        .setIssuer(named.issuer ?? issuer.url)
        .setAudience(named.audience ?? TEST_AUDIENCE)
        .setSubject(subject)
        .setIssuedAt(now - 10)
        .setExpirationTime(now + lifeSeconds)
        .sign(key.privateKey);
    },
    async rotateKey() {
      key = await newKey();
    },
    publicJwk: () => key.publicJwk,
    close,
  };
  return issuer;
}

async function newKey(): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const kid = crypto.randomUUID();
  return { kid, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' } };
}
