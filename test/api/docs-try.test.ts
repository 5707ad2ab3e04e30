// The page /docs/try: its script fills a form for each operation and sends it to the service, in the DOM of a browser.
import { Window } from 'happy-dom';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { expectedResults, prepareCalls } from '../support/client-calls.ts';
import { OPERATIONS } from '../support/filled-project.ts';
import { waitFor } from '../support/wait-for.ts';

interface Script {
  operationsOf: (contract: unknown) => { id: string; parameters: { name: string; in: string }[] }[];
  requestOf: (
    operation: unknown,
    asked: { token: string; values: Record<string, string>; text: string },
  ) => { url: string; init: RequestInit };
  start: (page: unknown, call: (url: string, init?: RequestInit) => Promise<Response>) => Promise<void>;
}

let api: ApiFixture;
let script: Script;
let windows: Window[] = [];
beforeAll(async () => {
  api = await openApiFixture({ config: { relayUrl: 'http://127.0.0.1:9', relayNotifiers: ['ntfy'] } });
  const file = new URL('../../src/api/docs/try-page/try.js', import.meta.url);
  script = await import(file.href);
});
afterAll(async () => {
  for (const window of windows) await window.happyDOM.close();
  windows = [];
  await api?.close();
});

const call = (url: string, init?: RequestInit) => fetch(`${api.url}${url}`, init);

/** The page as a browser has it after its script has begun. */
async function openPage() {
  const window = new Window();
  windows.push(window);
  window.document.write(await (await call('/docs/try')).text());
  await script.start(window.document, call);
  const field = (id: string) => {
    const found = window.document.getElementById(id);
    if (!found) throw new Error(`The page has no ${id}.`);
    return found as unknown as { value: string; textContent: string; hidden: boolean };
  };
  const input = (name: string) =>
    window.document.querySelector(`input[name="${name}"]`) as unknown as { value: string } | null;
  return {
    window,
    field,
    input,
    choose(id: string) {
      field('operation').value = id;
      window.document.getElementById('operation')?.dispatchEvent(new window.Event('change'));
    },
    /** Sends the form and returns what the page shows of the answer. */
    async send(token: string) {
      field('token').value = token;
      field('answer').textContent = '';
      window.document.getElementById('call')?.dispatchEvent(new window.Event('submit', { cancelable: true }));
      await waitFor(() => !/^$|…$/.test(field('answer').textContent), { what: 'the answer is shown' });
      return field('answer').textContent;
    },
  };
}

describe('the page /docs/try', () => {
  it('the page has one script, of this origin, and may call nothing but this service', async () => {
    const page = await call('/docs/try');
    expect(page.headers.get('content-security-policy')).toBe(
      "default-src 'none';style-src 'self';script-src 'self';connect-src 'self';base-uri 'none';form-action 'none'",
    );
    const text = await page.text();
    expect(text.match(/<script[^>]*>/g)).toEqual(['<script type="module" src="/docs/try.js">']);
    expect(text).not.toMatch(/(src|href)="(https?:)?\/\//);
    for (const word of [' style=', ' onclick', 'undefined']) expect(text).not.toContain(word);
    expect(text).toContain('<noscript>');
    const served = await call('/docs/try.js');
    expect(served.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    // Nothing of the token outlives the page.
    expect(await served.text()).not.toMatch(/localStorage|sessionStorage|indexedDB|cookie|innerHTML|eval\(/);
  });

  it('every operation is sent as its form says, and succeeds', async () => {
    const operations = script.operationsOf(await (await call('/docs/openapi.json')).json());
    expect(operations.map(({ id }) => id).sort()).toEqual(
      OPERATIONS.map(({ operationId }) => operationId).sort(),
    );
    const statuses: [string, number][] = [];
    for (const { operationId, token, parameters, body } of await prepareCalls(api, OPERATIONS)) {
      const operation = operations.find(({ id }) => id === operationId);
      const values = Object.fromEntries(
        (operation?.parameters ?? [])
          .filter(({ name }) => name in parameters)
          .map(({ name, in: where }) => [`${where}.${name}`, [parameters[name]].flat().join(' ')]),
      );
      const text = body === undefined ? '' : JSON.stringify(body);
      const { url, init } = script.requestOf(operation, { token, values, text });
      statuses.push([operationId, (await call(url, init)).status]);
    }
    expect(statuses).toEqual(
      expectedResults(OPERATIONS).map(({ operationId, status }) => [operationId, status]),
    );
  });

  it('a reader creates a monitor, then changes it with the ETag of that answer', async () => {
    const page = await openPage();
    page.choose('createMonitor');
    expect(JSON.parse(page.field('body').value)).toMatchObject({ name: 'Nightly backup' });
    expect(page.input('header.Idempotency-Key')?.value).toMatch(/^[0-9a-f]{32}$/);
    page.field('body').value = '{"monitorId": "tried", "name": "Tried"}';
    const made = await page.send(api.tokens.manage);
    expect(made).toMatch(/^201/);
    expect(made).toContain('"monitorId": "tried"');
    page.choose('updateMonitor');
    expect(page.input('header.If-Match')?.value).toBe('"configuration-1"');
    const id = page.input('path.monitorId');
    if (id) id.value = 'tried';
    page.field('body').value = '{"patch": {"graceSeconds": 600}}';
    expect(await page.send(api.tokens.manage)).toMatch(/^200.*"graceSeconds": 600/s);
  });

  it('a read has no field for a body, and a refusal is shown as text', async () => {
    const page = await openPage();
    page.choose('listMonitors');
    expect(page.field('body-field').hidden).toBe(true);
    const refused = await page.send('<b>no</b>');
    expect(refused).toMatch(/^401.*service\.authentication_required/s);
    expect(page.window.document.querySelector('#answer b')).toBeNull();
    expect(page.window.document.documentElement.outerHTML).not.toContain('&lt;b&gt;no');
  });
});
