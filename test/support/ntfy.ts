// The relay of tests: the ntfy server at NTFY_URL, one of its own where the program is on PATH, or a receiver that holds each
// request to ntfy's published interface (docs.ntfy.sh/publish "Publish as JSON", docs.ntfy.sh/subscribe/api) and keeps what
// it takes.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { startNtfyServer } from './ntfy-server.ts';
import { type ReceivedRequest, startReceiver } from './receiver.ts';

export interface NtfyMessage {
  id: string;
  topic: string;
  title?: string;
  message: string;
  /** Absent: 3. */
  priority?: number;
  tags?: string[];
}

export interface Ntfy {
  url: string;
  /** Undefined: it takes messages of everybody. */
  token?: string;
  /** What a phone that subscribes to the address would show, oldest first. */
  messagesAt(topicUrl: string | undefined): Promise<NtfyMessage[]>;
  close(): Promise<void>;
}

const TOKEN = 'tk_ofthetestsxxxxxxxxxxxxxxxxxxxx';

export async function openNtfy(): Promise<Ntfy> {
  const { NTFY_URL: url, NTFY_TOKEN: token } = process.env;
  if (url) return { ...ntfyAt(url.replace(/\/+$/, ''), token), close: async () => undefined };
  const server = await startNtfyServer();
  if (server) return { ...ntfyAt(server.url, undefined), close: server.close };
  const messages: NtfyMessage[] = [];
  const receiver = await startReceiver((response, request) => answer(response, request, messages));
  return { ...ntfyAt(new URL(receiver.url).origin, TOKEN), close: () => receiver.close() };
}

function ntfyAt(url: string, token: string | undefined): Omit<Ntfy, 'close'> {
  return {
    url,
    token,
    async messagesAt(topicUrl) {
      const headers = new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` });
      const answer = await fetch(`${topicUrl}/json?poll=1&since=all`, { headers });
      if (!answer.ok) throw new Error(`ntfy answers ${answer.status}: ${await answer.text()}`);
      const lines = (await answer.text()).trim().split('\n');
      const events = lines.filter(Boolean).map((line) => JSON.parse(line) as NtfyMessage & { event: string });
      return events.filter(({ event }) => event === 'message');
    },
  };
}

/** ntfy's defaults: `message-size-limit`, and twice that for JSON. */
const MESSAGE_BYTES = 4_096;
const JSON_BYTES = 8_192;
const TOPIC = /^[-_A-Za-z0-9]{1,64}$/;
const FIELDS = ['topic', 'title', 'message', 'priority', 'tags'];

function answer(response: ServerResponse, request: ReceivedRequest, messages: NtfyMessage[]): void {
  const send = (status: number, body: unknown) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
  if (!mayUse(request.headers)) return void send(401, { code: 40101, http: 401, error: 'unauthorized' });
  const [, polled] = /^\/([^/]+)\/json\?poll=1&since=all$/.exec(request.path) ?? [];
  if (request.method === 'GET' && polled !== undefined) {
    const found = messages.filter(({ topic }) => topic === polled);
    return void response.end(found.map((one) => `${JSON.stringify(one)}\n`).join(''));
  }
  const fault = faultOf(request);
  if (fault !== undefined) return void send(400, { code: 40024, http: 400, error: fault });
  const { topic, ...rest } = JSON.parse(request.body);
  const id = `m${messages.length}`;
  const time = Math.floor(Date.now() / 1000);
  const message = { id, time, expires: time + 43_200, event: 'message', topic, ...rest };
  messages.push(message);
  send(200, message);
}

function mayUse({ authorization }: IncomingHttpHeaders): boolean {
  return authorization === `Bearer ${TOKEN}`;
}

function faultOf({ method, path, body }: ReceivedRequest): string | undefined {
  if (method !== 'POST' || path !== '/') return 'JSON is published to the root of the server';
  if (Buffer.byteLength(body) > JSON_BYTES) return 'the JSON is too long';
  const message = JSON.parse(body) as Record<string, unknown>;
  const unknown = Object.keys(message).filter((field) => !FIELDS.includes(field));
  if (unknown.length > 0) return `unknown fields: ${unknown.join()}`;
  const { topic, title, message: text, priority, tags } = message;
  if (typeof topic !== 'string' || !TOPIC.test(topic)) return 'invalid topic';
  if (typeof title !== 'string' || /[\r\n]/.test(title)) return 'invalid title';
  if (typeof text !== 'string' || text === '' || Buffer.byteLength(text) > MESSAGE_BYTES)
    return 'invalid message';
  if (![1, 2, 3, 4, 5].includes(priority as number)) return 'invalid priority';
  if (!Array.isArray(tags) || !tags.every((tag) => typeof tag === 'string' && /^\w+$/.test(tag)))
    return 'invalid tags';
  return undefined;
}
