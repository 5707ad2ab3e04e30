// An HTTP server in place of /v1, for an order of answers that a real one gives only by chance.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { RestClient } from '../../../src/client/rest-client.ts';
import { listen } from '../../support/listen.ts';

export interface FakeAnswer {
  status: number;
  body: object;
}

export interface FakeApi {
  client: RestClient;
  /** Such as `GET /v1/projects`, without the query. */
  requests: string[];
  /** Operations whose answers have arrived. */
  ended: string[];
  close(): Promise<void>;
}

/** `answer` may take any time. It gets the body of the request and its project too. */
export async function startFakeApi(
  answer: (request: string, body: string, project: string) => Promise<FakeAnswer> | FakeAnswer,
): Promise<FakeApi> {
  const requests: string[] = [];
  const server = createServer(async (message, response) => {
    const sent = await text(message).catch(() => undefined);
    if (sent === undefined) return; // the client ended before the request did
    const request = `${message.method} ${message.url?.split('?')[0]}`;
    requests.push(request);
    const { status, body } = await answer(request, sent, String(message.headers['service-project']));
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const { port, close } = await listen(server);
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-fake-api-'));
  const tokenFile = join(folder, 'token');
  await writeFile(tokenFile, 'token');
  const apiUrl = `http://127.0.0.1:${port}`;
  const ended: string[] = [];
  const onCall = ({ operation }: { operation: string }) => void ended.push(operation);
  const client = new RestClient({ apiUrl, tokenFile, timeoutMs: 60_000, onCall });
  return {
    ...{ client, requests, ended },
    async close() {
      await client.close();
      await close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
