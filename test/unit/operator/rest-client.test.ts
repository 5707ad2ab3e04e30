// Calls to /v1: headers, problems and their classes, Retry-After, replaced tokens.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ApiProblem, classify, isTaken, problemFromAnswer } from '../../../src/client/api-problem.ts';
import { RetryGate, WHOLE_SERVICE } from '../../../src/client/call-guards.ts';
import { RestClient } from '../../../src/client/rest-client.ts';
import { problemText, withoutAddress } from '../../../src/operator/resources/problem-text.ts';
import { type Listening, listen } from '../../support/listen.ts';

type Step = (request: IncomingMessage, response: ServerResponse) => void;

describe('the client', () => {
  let server: Listening;
  let folder: string;
  let tokenFile: string;
  let client: RestClient;
  let requests: { headers: IncomingMessage['headers']; url?: string; body: string }[];
  let script: Step[];
  let nowMs: number;

  beforeEach(async () => {
    [requests, script, nowMs] = [[], [], 0];
    const listener = async (request: IncomingMessage, response: ServerResponse) => {
      const body = await text(request).catch(() => undefined);
      if (body === undefined) return; // the caller has given up in the middle
      requests.push({ headers: request.headers, url: request.url, body });
      const step = script.shift() ?? answer(200, { items: [] });
      step(request, response);
    };
    server = await listen(createServer(listener));
    folder = await mkdtemp(join(tmpdir(), 'beatkeeper-rest-'));
    tokenFile = join(folder, 'token');
    await writeFile(tokenFile, 'one\n');
    const apiUrl = `http://127.0.0.1:${server.port}`;
    client = new RestClient({ apiUrl, tokenFile, timeoutMs: 60_000, gate: new RetryGate(() => nowMs) });
  });
  afterEach(async () => {
    await client.close();
    await server.close();
    await rm(folder, { recursive: true, force: true });
  });

  const answer = (status: number, body: object, headers: Record<string, string> = {}): Step => {
    return (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(body));
    };
  };
  const problem = (status: number, code: string, more: object = {}, headers = {}) =>
    answer(
      status,
      { title: 't', status, code, detail: 'Say why.', correlationId: 'c', retryable: false, ...more },
      headers,
    );
  const list = (project?: string) => client.call('listProjects', { query: {} }, { project });
  const failure = async (call: Promise<unknown>) => {
    const error = await call.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof ApiProblem)) throw new Error(`No problem but ${error}`);
    return error;
  };

  it('a beat has its key and no token, and a pause that is asked of it holds up no call', async () => {
    const beat = { idempotencyKey: 'job-start', body: { status: 'start', runId: 'job' } };
    await client.sendBeat('4f9c', beat);
    const [sent] = requests;
    expect(sent).toMatchObject({ url: '/ping/4f9c', body: JSON.stringify(beat.body) });
    expect(sent?.headers).toMatchObject({
      'idempotency-key': 'job-start',
      'content-type': 'application/json',
    });
    expect(sent?.headers.authorization).toBeUndefined();
    script.push(problem(429, 'service.rate_limited', {}, { 'retry-after': '30' }));
    expect(await failure(client.sendBeat('4f9c', beat))).toMatchObject({ status: 429, retryAfterMs: 30_000 });
    await list();
    script.push(problem(404, 'service.not_found'));
    expect(classify(await failure(client.sendBeat('4f9c', beat)))).toBe('gone');
  });

  it('a call has the token, project, key, correlation id, path and ETag', async () => {
    const body = { name: 'n' };
    await client.call(
      'createProject',
      { body, idempotencyKey: 'k1' },
      { project: 'Gärten', correlationId: 'c/1' },
    );
    const [sent] = requests;
    expect(sent?.headers).toMatchObject({
      authorization: 'Bearer one',
      'idempotency-key': 'k1',
      'x-correlation-id': 'c/1',
    });
    expect(Buffer.from(String(sent?.headers['service-project']), 'latin1').toString()).toBe('Gärten');
    expect(JSON.parse(sent?.body ?? '')).toEqual(body);
    const params = { monitorId: 'a/b' };
    await client.call('deleteMonitor', {
      params,
      query: { jurisdiction: 'eu' },
      ifMatch: '"configuration-7"',
    });
    expect(requests[1]).toMatchObject({
      url: '/v1/monitors/a%2Fb?jurisdiction=eu',
      headers: { 'if-match': '"configuration-7"' },
    });
  });

  it('a problem of the API is thrown with its code and field errors', async () => {
    const fieldErrors = [{ code: 'invalid', message: 'Be good.', path: 'name' }];
    script.push(problem(400, 'service.validation_failed', { fieldErrors }));
    const error = await failure(list());
    expect(error).toMatchObject({ status: 400, code: 'service.validation_failed', fieldErrors });
    expect(problemText(error)).toBe('service.validation_failed: Say why. (name: Be good.)');
  });

  it('the text of a problem repeats no sentence', () => {
    const fault = { code: 'invalid', message: 'Be good.', path: 'name' };
    const fields = { status: 400, code: 'service.validation_failed', detail: 'Not valid: name: Be good.' };
    const other = { code: 'invalid', message: 'Be bad.', path: 'labels' };
    const error = new ApiProblem({ ...fields, fieldErrors: [fault, other] });
    expect(problemText(error)).toBe('service.validation_failed: Not valid: name: Be good. (labels: Be bad.)');
    const bare = new ApiProblem({ ...fields, detail: 'Be good.', fieldErrors: [fault, other] });
    expect(problemText(bare)).toBe('service.validation_failed: Be good. (name; labels: Be bad.)');
    const alone = new ApiProblem({ ...fields, detail: 'Be good.', fieldErrors: [{ ...fault, path: '' }] });
    expect(problemText(alone)).toBe('service.validation_failed: Be good.');
  });

  it('a call without an answer of the API throws a timeout, unreachable or http_502', async () => {
    // A server of its own: a call that is given up may arrive after the next one.
    const mute = await listen(createServer(() => undefined));
    const impatient = new RestClient({ apiUrl: `http://127.0.0.1:${mute.port}`, tokenFile, timeoutMs: 50 });
    const call = impatient.call('listProjects', { query: {} });
    expect(await failure(call)).toMatchObject({ status: 0, code: 'timeout' });
    await impatient.close();
    await mute.close();
    script.push((request) => request.socket.destroy());
    expect(await failure(list())).toMatchObject({ status: 0, code: 'unreachable' });
    script.push((_request, response) => response.writeHead(502).end('<html>'));
    expect(await failure(list())).toMatchObject({ status: 502, code: 'http_502' });
  });

  it('after five failures one call probes the API and others fail at once, until the probe is answered', async () => {
    for (let i = 0; i < 5; i += 1) {
      script.push((request) => request.socket.destroy());
      expect((await failure(list())).code).toBe('unreachable');
    }
    const held = Promise.withResolvers<ServerResponse>();
    script.push((_request, response) => held.resolve(response));
    const probe = list();
    const response = await held.promise;
    const asked = requests.length;
    expect((await failure(list())).code).toBe('unreachable');
    expect(requests).toHaveLength(asked);
    answer(200, { items: [] })({} as IncomingMessage, response);
    await probe;
    await Promise.all([list(), list()]);
    expect(requests).toHaveLength(asked + 2);
  });

  it('calls that cannot be sent say nothing about the API: others go on', async () => {
    for (let i = 0; i < 5; i += 1) {
      expect(await failure(list('x\ny'))).toMatchObject({ status: 0, code: 'not_sent' });
      const monitorId = '\ud800';
      const halved = client.call('getMonitor', { params: { monitorId }, query: {} });
      expect((await failure(halved)).code).toBe('not_sent');
    }
    const blind = new RestClient({ apiUrl: `http://127.0.0.1:${server.port}`, tokenFile });
    await rm(tokenFile);
    for (let i = 0; i < 6; i += 1) {
      const error = await failure(blind.call('listProjects', { query: {} }));
      expect([error.code, classify(error)]).toEqual(['not_sent', 'passing']);
    }
    await writeFile(tokenFile, 'one');
    expect(requests).toHaveLength(0);
    for (const one of [client, blind]) {
      const calls = [one.call('listProjects', { query: {} }), one.call('listProjects', { query: {} })];
      await Promise.all(calls);
    }
    expect(requests).toHaveLength(4);
    await blind.close();
  });

  it('a token that is given as it is goes out with the name of the program, and a 401 is not tried again', async () => {
    const apiUrl = `http://127.0.0.1:${server.port}`;
    const caller = new RestClient({ apiUrl, token: 'given', userAgent: 'kubectl-beat/1' });
    await caller.call('listProjects', { query: {} });
    script.push(problem(401, 'service.authentication_required'));
    expect((await failure(caller.call('listProjects', { query: {} }))).status).toBe(401);
    await caller.close();
    const sent = requests.map(({ headers }) => [headers.authorization, headers['user-agent']]);
    expect(sent).toEqual([
      ['Bearer given', 'kubectl-beat/1'],
      ['Bearer given', 'kubectl-beat/1'],
    ]);
  });

  it('Retry-After of a service that is away holds all calls', async () => {
    script.push(
      problem(503, 'service.temporarily_unavailable', { retryable: true }, { 'retry-after': '20' }),
    );
    expect((await failure(list('a'))).retryAfterMs).toBe(20_000);
    expect((await failure(list('b'))).retryAfterMs).toBe(20_000);
    expect(requests).toHaveLength(1);
    nowMs = 20_001;
    await list('b');
  });

  it('a 503 that names a jurisdiction holds no other call', async () => {
    const about = { retryable: true, jurisdiction: 'eu' };
    script.push(problem(503, 'service.temporarily_unavailable', about, { 'retry-after': '20' }));
    const refused = await failure(list('a'));
    expect([refused.jurisdiction, refused.retryAfterMs]).toEqual(['eu', 20_000]);
    await list('a');
    expect(requests).toHaveLength(2);
  });

  it.each([
    [
      'the limit of a project',
      { limit: { dimension: 'api_requests_per_minute', remediation: 'reduce_usage' } },
    ],
    ['a share of the calls that are open', {}],
  ])('a 429 holds the calls of its project alone: %s', async (_, more) => {
    script.push(problem(429, 'service.rate_limited', { retryable: true, ...more }, { 'retry-after': '30' }));
    await failure(list('a'));
    await list('b');
    await list();
    await failure(list('a'));
    expect(requests).toHaveLength(3);
    nowMs = 30_001;
    await list('a');
    expect(requests).toHaveLength(4);
  });

  it('a replaced token is read after a 401, and a second 401 is unauthorized', async () => {
    await list();
    await writeFile(tokenFile, 'two');
    script.push(problem(401, 'service.authentication_required'));
    await list();
    expect(requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer one',
      'Bearer one',
      'Bearer two',
    ]);
    script.push(problem(401, 'service.authentication_required'));
    expect(classify(await failure(list()))).toBe('unauthorized');
  });

  it('a call ends when its caller aborts', async () => {
    const abort = new AbortController();
    script.push(() => abort.abort(new Error('The end.')));
    await expect(client.call('listProjects', { query: {} }, { signal: abort.signal })).rejects.toThrow(
      'The end.',
    );
  });
});

describe('a problem', () => {
  it.each<[number, string, boolean, string]>([
    [0, 'unreachable', true, 'passing'],
    [400, 'service.validation_failed', false, 'permanent'],
    [400, 'service.callback_destination_rejected', false, 'permanent'],
    [401, 'service.authentication_required', false, 'unauthorized'],
    [403, 'service.plan_limit_reached', false, 'permanent'],
    [403, 'service.permission_denied', false, 'permanent'],
    [404, 'service.not_found', false, 'gone'],
    [409, 'service.conflict', false, 'permanent'],
    [409, 'service.conflict', true, 'passing'],
    [412, 'service.precondition_failed', false, 'conflict'],
    [413, 'service.payload_too_large', false, 'permanent'],
    [429, 'service.rate_limited', true, 'passing'],
    [500, 'service.internal_error', true, 'passing'],
    [502, 'http_502', false, 'passing'],
    [404, 'http_404', false, 'passing'],
    [403, 'http_403', false, 'passing'],
    [301, 'http_301', false, 'passing'],
    [401, 'http_401', false, 'unauthorized'],
    [503, 'service.temporarily_unavailable', true, 'passing'],
  ])('the problem %d %s (retryable: %s) is %s', (status, code, retryable, expected) => {
    expect(classify(new ApiProblem({ status, code, detail: '', retryable }))).toBe(expected);
  });

  it('a refusal of a field that the API does not know is passing: an older api has answered, in an upgrade', () => {
    const refusalOf = (code: string) =>
      new ApiProblem({
        status: 400,
        code: 'service.validation_failed',
        detail: '',
        fieldErrors: [{ path: 'patch.graceSeconds', code, message: '' }],
      });
    expect(classify(refusalOf('unknown_field'))).toBe('passing');
    expect(classify(refusalOf('too_small'))).toBe('permanent');
  });

  it('a conflict names the field that is taken', () => {
    const body = {
      code: 'service.conflict',
      detail: 'd',
      fieldErrors: [{ code: 'not_unique', message: 'm', path: 'alias' }],
    };
    const error = problemFromAnswer(409, JSON.stringify(body), undefined);
    expect([isTaken(error, 'alias'), isTaken(error, 'endpointId')]).toEqual([true, false]);
  });

  it('the text of a problem hides an address that comes from a Secret', () => {
    const words = 'The host hooks.example.com of https://hooks.example.com/s3cret?t=1 leads to /s3cret.';
    expect(withoutAddress(words, 'https://hooks.example.com/s3cret?t=1')).toBe(
      'The host <address> of <address> leads to <address>.',
    );
    expect(withoutAddress(words, undefined)).toBe(words);
  });

  it('a gate is shut for the longest time that was asked for', () => {
    let nowMs = 0;
    const gate = new RetryGate(() => nowMs);
    gate.shut(WHOLE_SERVICE, 5);
    gate.shut(WHOLE_SERVICE, 2);
    gate.shut('a', 9);
    expect([gate.waitMs('b'), gate.waitMs('a')]).toEqual([5000, 9000]);
    nowMs = 6000;
    expect([gate.waitMs('b'), gate.waitMs('a')]).toEqual([0, 3000]);
  });
});
