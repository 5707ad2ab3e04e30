// An identity provider on loopback: it publishes keys by discovery, signs tokens of any shape, and reviews them.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
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
  /** Before now; null: no `iat`. */
  ageSeconds?: number | null;
  issuer?: string;
  audience?: string;
}

type Review = object | number | undefined;

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
  /** Answers POST /reviews with this; a number is the status of a failure, undefined a 500. */
  review: (body: unknown) => Review | Promise<Review>;
  close(): Promise<void>;
}

export const TEST_AUDIENCE = 'beatkeeper';

export async function startTokenIssuer(): Promise<TokenIssuer> {
  let key = await newKey();
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    const path = request.url ?? '';
    requests.push(path);
    const documents: Record<string, object | number> = {
      '/.well-known/openid-configuration': { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
      '/keys': { keys: [key.publicJwk] },
    };
    const answer =
      path === '/reviews' ? await issuer.review(JSON.parse(await text(request))) : documents[path];
    const document = issuer.broken || typeof answer === 'number' ? undefined : answer;
    const failure = typeof answer === 'number' && !issuer.broken ? answer : 500;
    response.writeHead(document ? 200 : failure, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify(document ?? {}));
  });
  const { port, close } = await listen(server);
  const issuer: TokenIssuer = {
    url: `http://127.0.0.1:${port}`,
    requests,
    broken: false,
    review: () => undefined,
    trusted: (settings) => ({
      issuer: issuer.url,
      audience: TEST_AUDIENCE,
      maxTokenAge: 86_400,
      ...settings,
    }),
    async sign({ claims = {}, subject = 'someone', lifeSeconds = 3_600, ageSeconds = 10, ...named } = {}) {
      const now = Math.floor(Date.now() / 1_000);
      const issuedAt = ageSeconds === null ? {} : { iat: now - ageSeconds };
      return await new SignJWT({ ...issuedAt, ...claims })
        .setProtectedHeader({ alg: 'ES256', kid: key.kid })
        .setIssuer(named.issuer ?? issuer.url)
        .setAudience(named.audience ?? TEST_AUDIENCE)
        .setSubject(subject)
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
