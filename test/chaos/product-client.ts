// Does what a user's scripts do with the product: makes monitors, beats them, reads what is stored. It retries under one
// idempotency key as the documentation says.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { ReadyFields } from '../dev/development-run.ts';
import { waitFor } from '../support/wait-for.ts';

export interface Beaten {
  monitorId: string;
  publishUrl: string;
}

export class ProductClient {
  readonly #ready: ReadyFields;

  constructor(ready: ReadyFields) {
    this.#ready = ready;
  }

  /** Calls the API until it answers with something other than 5xx, 429 or 409. Throws for a refusal. */
  async call<T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const key = randomUUID();
    return await waitFor(
      async () => {
        const response = await fetch(`${this.#ready.api}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${this.#ready.credential}`,
            'content-type': 'application/json',
            'idempotency-key': key,
            ...headers,
          },
          body: body === undefined ? undefined : JSON.stringify(body),
          signal: AbortSignal.timeout(15_000),
        });
        const text = await response.text();
        const isPassing = response.status >= 500 || response.status === 429 || response.status === 409;
        if (!response.ok && isPassing) throw new Error(`${response.status} ${text}`);
        if (!response.ok) return { refusal: `${method} ${path}: ${response.status} ${text}` };
        return { answer: (text === '' ? undefined : JSON.parse(text)) as T };
      },
      { what: `${method} ${path} is answered`, timeoutMs: 300_000 },
    ).then((result) => {
      if ('refusal' in result) throw new Error(result.refusal);
      return result.answer as T;
    });
  }

  /** Makes the organization's default endpoint and returns its signing secret. */
  async makeDefaultEndpoint(alias: string, url: string): Promise<string> {
    const made = await this.call<{ endpoint: { id: string }; signingSecret: { secret: string } }>(
      'POST',
      '/v1/callbacks',
      { alias, url },
    );
    await this.call(
      'PUT',
      '/v1/callbacks/default',
      { endpointId: made.endpoint.id },
      // The default serves every project, so a credential of one may not set it.
      { authorization: `Bearer ${this.#ready.ownerToken}`, 'service-project': this.#ready.projectId },
    );
    return made.signingSecret.secret;
  }

  async makeMonitors(count: number, fields: Record<string, unknown>): Promise<Beaten[]> {
    return await Promise.all(
      Array.from({ length: count }, (_, index) =>
        this.call<Beaten>('POST', '/v1/monitors', { ...fields, name: `${fields.name}-${index}` }),
      ),
    );
  }

  /** Sends one beat. Returns its sequence, or undefined when it was not acknowledged. */
  async beat(monitor: Beaten): Promise<number | undefined> {
    const api = this.#ready.apis[Math.floor(Math.random() * this.#ready.apis.length)] ?? this.#ready.api;
    const url = new URL(new URL(monitor.publishUrl).pathname, api);
    try {
      const response = await fetch(url, {
        headers: { accept: 'application/json' },
        signal: AbortSignal.timeout(12_000),
      });
      const answer = (await response.json()) as { sequence?: number };
      return response.ok ? answer.sequence : undefined;
    } catch {
      return undefined;
    }
  }

  /** Beats until a beat is acknowledged. */
  async beatSurely(monitor: Beaten): Promise<number> {
    return await waitFor(() => this.beat(monitor), { what: 'an acknowledged beat', timeoutMs: 300_000 });
  }

  /** Queries the product's database. */
  async query<T extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<T[]> {
    const client = new pg.Client({ connectionString: this.#ready.databaseUrl });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<T>(sql, values)).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}
