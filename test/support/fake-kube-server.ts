// A scripted HTTP server in place of a kube-apiserver, for answers that a real one gives only after hours: expired
// versions, rejected tokens, overload. The next step of the script answers each request.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { KubeConfig } from '@kubernetes/client-node';
import { listen } from './listen.ts';

export interface FakeRequest {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage['headers'];
}

/** Answers one request. It leaves the response open for a watch. */
export type FakeStep = (request: FakeRequest, response: ServerResponse) => void;

export interface FakeKubeServer {
  requests: FakeRequest[];
  /** Answers the requests after the end of the script. */
  otherwise: FakeStep;
  config(token?: string): KubeConfig;
  close(): Promise<void>;
}

export async function startFakeKubeServer(script: FakeStep[], otherwise: FakeStep): Promise<FakeKubeServer> {
  const requests: FakeRequest[] = [];
  const fake = { requests, otherwise };
  const server = createServer((message, response) => {
    const url = new URL(message.url ?? '/', 'http://fake');
    const { method = '', headers } = message;
    const request = { method, path: url.pathname, query: url.searchParams, headers };
    requests.push(request);
    message.resume();
    (script.shift() ?? fake.otherwise)(request, response);
  });
  const { port, close } = await listen(server);
  const config = (token?: string) => configOf(`http://127.0.0.1:${port}`, token);
  return Object.assign(fake, { config, close });
}

/** Answers with JSON. */
export function json(status: number, body: object, headers: Record<string, string> = {}): FakeStep {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
}

/** Answers with a Status. */
export function status(code: number, reason: string, headers: Record<string, string> = {}): FakeStep {
  const body = {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    code,
    reason,
    message: `It is ${reason}.`,
  };
  return json(code, body, headers);
}

/** Answers with a watch that sends these events at once and then ends, or stays open. */
export function watch(events: object[], then: 'ends' | 'stays'): FakeStep {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const event of events) response.write(`${JSON.stringify(event)}\n`);
    if (then === 'ends') response.end();
  };
}

function configOf(server: string, token: string | undefined): KubeConfig {
  const config = new KubeConfig();
  config.loadFromClusterAndUser({ name: 'fake', server, skipTLSVerify: true }, { name: 'user', token });
  return config;
}
