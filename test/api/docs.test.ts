// The OpenAPI document and the public pages: complete, without foreign assets, with samples that work as shown.
// Holds: getOpenApi.
import { spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PAGES } from '../../src/api/docs/page.ts';
import { verifyAlert } from '../../src/api/docs/webhook-samples/verify.ts';
import { SAMPLES_FOLDER, WEBHOOK_SAMPLES } from '../../src/api/docs/webhooks-page.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import { RETRY_WAITS_MS } from '../../src/delivery/retry-schedule.ts';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { INCIDENT_STATES, TIMELINE_TYPES } from '../../src/domain/incident.ts';
import { HEALTHS } from '../../src/domain/monitor.ts';
import { findPlan } from '../../src/domain/plan.ts';
import { PLAN_IDS, PROBLEMS, REMEDIATIONS } from '../../src/domain/problem.ts';
import { KEPT_DAYS } from '../../src/domain/retention.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const read = async (path: string) => {
  const response = await fetch(`${api.url}${path}`);
  return { status: response.status, headers: response.headers, text: await response.text() };
};

describe('the OpenAPI document', () => {
  it('the served document is docs/contract/openapi.json to the byte, with the public address of the installation', async () => {
    const file = await readFile(new URL('../../docs/contract/openapi.json', import.meta.url), 'utf8');
    const published = JSON.stringify({ ...JSON.parse(file), servers: [{ url: 'http://127.0.0.1:8080' }] });
    const docs = await read('/docs/openapi.json');
    expect(docs.status).toBe(200);
    expect(docs.headers.get('x-request-id')).toBeTruthy();
    expect(docs.text).toBe(published);
    expect(JSON.stringify((await api.read.expectSuccess('getOpenApi')).body)).toBe(published);
  });

  it('a session reads the document without a project', async () => {
    expect((await api.owner.as(api.tokens.viewer, null).call('getOpenApi')).status).toBe(200);
  });

  it('every operation of the document has a route that asks for a credential', async () => {
    for (const { method, path } of Object.values(contractOperations())) {
      const response = await fetch(`${api.url}${path.replaceAll(/\{\w+\}/g, 'x')}`, { method });
      // Without a credential: the route is there and asks for one.
      expect([method, path, response.status]).toEqual([method, path, 401]);
    }
  });
});

describe('the pages', () => {
  it('the page /docs shows every operation and loads nothing from elsewhere', async () => {
    const { status, text, headers } = await read('/docs');
    expect(status).toBe(200);
    for (const { operationId, path } of Object.values(contractOperations())) {
      expect(text).toContain(`id="${operationId}"`);
      expect(text).toContain(path);
    }
    expect(text).toContain('Authorization: Bearer &lt;token&gt;');
    expect(text).not.toContain('<script');
    expect(text).not.toMatch(/(src|href)="(https?:)?\/\//);
    expect(text).not.toContain('[object Object]');
    expect(text).not.toContain('undefined');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect((await read('/docs/style.css')).headers.get('content-type')).toContain('text/css');
  });

  // test/api/docs-try.test.ts has the one page with a script.
  const htmlPages = Object.keys(PAGES).filter((path) => !path.endsWith('.json') && path !== '/docs/try');

  it('every link of the pages has its target, on its page and on others', async () => {
    const texts = new Map<string, string>();
    const textAt = async (path: string) => {
      const text = texts.get(path) ?? (await read(path)).text;
      texts.set(path, text);
      return text;
    };
    for (const path of htmlPages) {
      const links = [...(await textAt(path)).matchAll(/href="([^"]+)"/g)].map(([, link = '']) => link);
      for (const link of new Set(links)) {
        if (link.startsWith('https://')) continue;
        const [to = '', target] = link.split('#');
        const there = await textAt(to === '' ? path : to);
        expect([path, link, there.startsWith('{"type":')]).toEqual([path, link, false]);
        if (target !== undefined) expect([link, there.includes(`id="${target}"`)]).toEqual([link, true]);
      }
    }
  });

  it.each(htmlPages)(
    'the page %s needs no script, is served under a strict policy and knows its place',
    async (path) => {
      const { status, text, headers } = await read(path);
      expect(status).toBe(200);
      expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none';style-src 'self';base-uri 'none';form-action 'none'",
      );
      for (const word of [
        '<script',
        ' style=',
        '<style',
        ' onclick',
        'undefined',
        '[object Object]',
        '>NaN',
      ]) {
        expect([path, word, text.includes(word)]).toEqual([path, word, false]);
      }
      expect(text).toContain('<html lang="en">');
      expect(text).toContain('name="viewport"');
      expect(text).toContain(`<a href="${path}" aria-current="page">`);
      expect(text.match(/<h1>/g)).toHaveLength(1);
      const ids = [...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
      expect(ids).toEqual([...new Set(ids)]);
      const headings = [...text.matchAll(/<h2( id="[^"]+")?>/g)].map(([, id]) => id);
      if (path !== '/docs/problems') expect(headings.length).toBeGreaterThan(0);
      for (const id of headings) expect(id).toBeDefined();
    },
  );

  it('nested fields, forms of unions and parameters of a path are written out', async () => {
    const { text } = await read('/docs');
    const section = (id: string) => {
      const from = text.indexOf(`<h3 id="${id}">`);
      return text.slice(from, text.indexOf('</section>', from)).replaceAll(/<[^>]+>/g, ' ');
    };
    const create = section('createMonitor');
    for (const words of [
      'schedule.cron',
      'schedule.timeZone',
      '{kind: &quot;named&quot;, alias}',
      'callback.url',
      '60 to 31,536,000',
    ]) {
      expect(create).toContain(words);
    }
    const update = section('updateMonitor');
    for (const words of [
      'patch.measurements.&lt;key&gt;.ratio.denominator',
      '{consecutiveObservations, severity}',
      'rulePolicy.sustainedCriterion.seconds',
    ]) {
      expect(update).toContain(words);
    }
    expect(section('schema-MonitorStatus')).toContain('cadence.sampleCount');
    const beat = section('pingExitStatus');
    for (const words of ['publishId', 'exitStatus', 'rid', 'path, required']) expect(beat).toContain(words);
  });

  it('the limits and the times of keeping are those of the sources', async () => {
    const limits = (await read('/docs/limits')).text;
    for (const id of PLAN_IDS) {
      const plan = findPlan(id);
      const { activeMonitors, callbackEndpoints, apiRequestsPerMinute } = plan;
      for (const count of [activeMonitors, callbackEndpoints, apiRequestsPerMinute]) {
        expect(limits).toContain(`<td>${count.toLocaleString('en-US')}</td>`);
      }
    }
    const retention = (await read('/docs/retention')).text;
    for (const days of Object.values(KEPT_DAYS)) expect(retention).toContain(`${days} days`);
    const organization = await readFile(
      new URL('../../docs/contract/organization.md', import.meta.url),
      'utf8',
    );
    expect(organization).toContain(
      `| observations, also of deleted monitors | ${KEPT_DAYS.observations} days,`,
    );
    const states = (await read('/docs/states')).text;
    for (const word of [...HEALTHS, ...INCIDENT_STATES, ...TIMELINE_TYPES])
      expect(states).toContain(`<code>${word}</code>`);
    const waits = ['5 s', '30 s', '2 min', '10 min', '1 h', '4 h'].join(', ');
    expect((await read('/docs/webhooks')).text).toContain(`after ${waits} and 12 h`);
    expect(RETRY_WAITS_MS.map((ms) => ms / 1_000)).toEqual([0, 5, 30, 120, 600, 3_600, 14_400, 43_200]);
  });

  it('every remediation of a problem leads to a place on a page that exists', async () => {
    const remediations = Object.values(REMEDIATIONS);
    expect(remediations.length).toBeGreaterThan(0);
    for (const { documentation } of remediations) {
      const [path = '', target] = documentation.split('#');
      expect(documentation).toMatch(/^\/docs[/#]/);
      const { status, text } = await read(path);
      expect([documentation, status, text.includes(`id="${target}"`)]).toEqual([documentation, 200, true]);
    }
  });

  it('every problem code has a page, and other names have none', async () => {
    const list = await read('/docs/problems');
    for (const code of Object.keys(PROBLEMS)) {
      expect(list.text).toContain(`/docs/problems/${code}`);
      const one = await read(`/docs/problems/${code}`);
      expect(one.status).toBe(200);
      expect(one.text).toContain(`service.${code}`);
    }
    for (const name of ['nothing', 'constructor', '__proto__', '%3Cscript%3E']) {
      expect((await read(`/docs/problems/${name}`)).status).toBe(404);
    }
  });
});

describe('the samples for checking a signature', () => {
  const secretKey = randomBytes(32);
  const secret = `sigcb_v1_${secretKey.toString('base64url')}`;
  const body = JSON.stringify({ type: 'incident.opened', data: { note: 'Grüße & "quotes"' } });
  const signed = (key: Buffer, at = new Date()) => {
    const id = `msg_${randomUUID()}`;
    return {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(key.toString('base64')).sign(id, at, body),
    };
  };
  const file = (language: keyof typeof WEBHOOK_SAMPLES) =>
    fileURLToPath(new URL(WEBHOOK_SAMPLES[language], SAMPLES_FOLDER));

  async function expectVerdicts(accepts: (headers: Record<string, string>) => Promise<boolean>) {
    // Signed now: a sample refuses a signature that is minutes old, and compilers may have run since this file began.
    const good = signed(secretKey);
    const both = `v1,${randomBytes(32).toString('base64')} ${good['webhook-signature']}`;
    expect(await accepts(good)).toBe(true);
    expect(await accepts({ ...good, 'webhook-signature': both })).toBe(true);
    expect(await accepts(signed(secretKey, new Date(Date.now() - 3_600_000)))).toBe(false);
    expect(await accepts(signed(randomBytes(32)))).toBe(false);
  }

  it('the page shows the samples as they are', async () => {
    const { text } = await read('/docs/webhooks');
    for (const name of Object.values(WEBHOOK_SAMPLES)) {
      const lines = (await readFile(new URL(name, SAMPLES_FOLDER), 'utf8')).split('\n');
      const plain = lines.filter((line) => line !== '' && !/[&<>"']/.test(line));
      for (const line of plain) expect(text).toContain(line);
    }
  });

  it('the TypeScript sample accepts good signatures and refuses bad ones', async () => {
    await expectVerdicts(async (headers) => {
      try {
        verifyAlert(secret, headers, body);
        return true;
      } catch {
        return false;
      }
    });
  });

  it('the shell sample accepts good signatures and refuses bad ones', async (context) => {
    if (!(await has('openssl'))) context.skip('There is no openssl on this machine.');
    await expectVerdicts(async (headers) => {
      const { 'webhook-id': id = '', 'webhook-timestamp': at = '', 'webhook-signature': by = '' } = headers;
      return await succeeds('sh', [file('Shell, with OpenSSL'), id, at, by], { SECRET: secret }, body);
    });
  });

  it('the Python sample accepts good signatures and refuses bad ones', async (context) => {
    if (!(await has('python3'))) context.skip('There is no python3 on this machine.');
    const caller = `import json,os,runpy,sys
verify = runpy.run_path(os.environ["SAMPLE"])["verify_alert"]
verify(os.environ["SECRET"], json.loads(os.environ["HEADERS"]), sys.stdin.buffer.read())`;
    await expectVerdicts((headers) => {
      const env = { SAMPLE: file('Python'), SECRET: secret, HEADERS: JSON.stringify(headers) };
      return succeeds('python3', ['-c', caller], env, body);
    });
  });

  it('the Go sample accepts good signatures and refuses bad ones', async (context) => {
    if (!(await has('go', 'version'))) context.skip('There is no go on this machine.');
    const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-go-'));
    try {
      const program = await buildGo(folder, await readFile(file('Go'), 'utf8'));
      await expectVerdicts((headers) => {
        return succeeds(program, [], { SECRET: secret, ...upperCase(headers) }, body);
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    // Its first run on a machine compiles the standard library.
  }, 900_000);
});

describe('the receivers of the quickstart', () => {
  const key = randomBytes(32);
  const body = JSON.stringify({ type: 'incident.opened', data: { incident: { summary: 'Grüße' } } });

  it.each([
    ['node', 'receiver.mjs', '--version'],
    ['python3', 'receiver.py', '--version'],
  ])('the receiver in %s takes an alert with a good signature alone', async (program, file, argument) => {
    expect(await has(program, argument)).toBe(true);
    const port = await findFreePort();
    const env = {
      ...process.env,
      RECEIVER_PORT: String(port),
      SECRET: `sigcb_v1_${key.toString('base64url')}`,
    };
    const path = fileURLToPath(new URL(file, SAMPLES_FOLDER));
    const child = spawn(program, [path], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += String(chunk);
    });
    try {
      await waitFor(() => output.includes('listening'), { what: 'the receiver listens' });
      const post = async (signer: Buffer, at = new Date()) => {
        const id = `msg_${randomUUID()}`;
        const signature = new Webhook(signer.toString('base64')).sign(id, at, body);
        const headers = {
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
          'webhook-signature': `v1,${randomBytes(32).toString('base64')} ${signature}`,
        };
        return (await fetch(`http://127.0.0.1:${port}/alerts`, { method: 'POST', headers, body })).status;
      };
      expect(await post(key)).toBe(204);
      expect(await post(randomBytes(32))).toBe(401);
      expect(await post(key, new Date(Date.now() - 3_600_000))).toBe(401);
      expect((await fetch(`http://127.0.0.1:${port}/alerts`, { method: 'POST', body })).status).toBe(401);
      await waitFor(() => output.includes('verified: incident.opened Grüße'), { what: 'the line' });
    } finally {
      child.kill('SIGKILL');
    }
  });
});

function upperCase(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toUpperCase().replaceAll('-', '_'), value]),
  );
}

async function buildGo(folder: string, sample: string): Promise<string> {
  await writeFile(join(folder, 'go.mod'), 'module alerts\n\ngo 1.21\n');
  await writeFile(join(folder, 'verify.go'), sample.replace('package alerts', 'package main'));
  await writeFile(
    join(folder, 'main.go'),
    `package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	header := http.Header{}
	header.Set("webhook-id", os.Getenv("WEBHOOK_ID"))
	header.Set("webhook-timestamp", os.Getenv("WEBHOOK_TIMESTAMP"))
	header.Set("webhook-signature", os.Getenv("WEBHOOK_SIGNATURE"))
	body, _ := io.ReadAll(os.Stdin)
	if VerifyAlert(os.Getenv("SECRET"), header, body) != nil {
		os.Exit(1)
	}
}
`,
  );
  const program = join(folder, 'verify');
  const { code, stderr } = await runProgram('go', ['build', '-o', program, '.'], { cwd: folder });
  if (code !== 0) throw new Error(stderr);
  return program;
}

async function has(command: string, argument = '--version'): Promise<boolean> {
  return await runProgram(command, [argument]).then(
    () => true,
    (error: { code?: unknown }) => error.code !== 'ENOENT',
  );
}

async function succeeds(
  command: string,
  args: string[],
  env: Record<string, string>,
  input: string,
): Promise<boolean> {
  const { code } = await runProgram(command, args, { env: { ...process.env, ...env }, input });
  return code === 0;
}
