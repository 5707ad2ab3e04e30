// The examples of /docs as somebody runs them: the line of curl that the page shows for each operation, in an order in
// which what it names exists. Ids that the service makes are put in; everything else is run as it stands.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EtagKind, formatEtag } from '../../src/contract/fields/headers.ts';
import { exampleOf } from '../../src/contract/openapi/examples/examples.ts';
import { ENDPOINT_URL, ID, MONITOR, PUBLISH_ID } from '../../src/contract/openapi/examples/records.ts';
import { REFUSALS } from '../../src/contract/openapi/examples/refusals.ts';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations, type OperationId } from '../../src/contract/operations/operations.ts';
import { remediationOf } from '../../src/domain/problem.ts';
import { MIN_VALUES } from '../../src/domain/rules/suggest.ts';
import type { ApiAnswer, ApiClient, ApiRequest } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { textOf } from '../support/page-text.ts';
import { startReceiver } from '../support/receiver.ts';
import { runProgram } from '../support/run-program.ts';
import { sendMeasured } from '../support/send-measured.ts';

const operations = contractOperations() as Record<string, OperationSpec>;

const ORDER = `
listProjects getProject createProject updateProject
createCredential listCredentials getCredential rotateCredential revokeCredential
createCallback listCallbacks getCallback updateCallback rotateSigningSecret setDefaultCallback testCallback connectRelay
createMonitor suggestRule
pingStart pingStartHead pingStartPost pingSuccess pingSuccessHead pingSuccessPost pingLog pingLogHead pingLogPost
pingFail pingFailHead pingFailPost pingExitStatus pingExitStatusHead pingExitStatusPost
createDraft listDrafts getDraft replayDraft updateDraft cancelDraft applyDraft
getMonitor listMonitors getFirstBeat testBeat explainMonitor listObservations readSeries getMonitorBinding
listMonitorIncidents getStatusFeed getBilling
listIncidents getIncident getIncidentTimeline listIncidentDeliveries listDeliveries getDelivery
acknowledgeIncident noteIncident redeliver resolveIncident
updateMonitor setMonitorBeatenBy clearMonitorBeatenBy setMonitorOrigin changeMonitorLifecycle listMonitorChanges rotatePublishUrl setMonitorBinding
signOperator setOperatorCauses reportMonitorOrigins setCallbackOrigin checkDestinations
listCallbackChanges exportOrganization getOpenApi deleteMonitor deleteCallback
`
  .trim()
  .split(/\s+/);

let api: ApiFixture;
let receiver: Awaited<ReturnType<typeof startReceiver>>;
let folder: string;
let page: string;
/** What stands in an example, to what is there. */
const real = new Map<string, string>();

beforeAll(async () => {
  api = await openApiFixture({ config: { relayUrl: 'http://127.0.0.1:9', relayNotifiers: ['ntfy'] } });
  receiver = await startReceiver();
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-docs-'));
  page = await (await fetch(`${api.url}/docs`)).text();
  real.set(ENDPOINT_URL, receiver.url);
  real.set(ID.project, api.projectId);
});
afterAll(async () => {
  await api?.close();
  await receiver?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** The line that the page shows for an operation. */
function shownFor(id: string): string {
  const from = page.indexOf(`<h3 id="${id}">`);
  const section = page.slice(from, page.indexOf('</section>', from));
  const [, block] = /<pre class="run"[^>]*><code>(.*?)<\/code>/s.exec(section) ?? [];
  expect([id, from > 0, block]).toEqual([id, true, expect.stringContaining('curl -sS')]);
  return textOf(block ?? '');
}

interface Ran {
  status: number;
  body: string;
}

async function run(id: string): Promise<Ran> {
  const headers = join(folder, 'headers');
  let script = shownFor(id).replace('curl -sS', `curl -sS -D "$HEADERS"`);
  for (const [example, value] of real) script = script.replaceAll(example, value);
  const env = {
    PATH: process.env.PATH,
    HEADERS: headers,
    BASE: api.url,
    TOKEN: api.tokens.manage,
    OWNER_TOKEN: api.tokens.owner,
    OPERATOR_TOKEN: api.tokens.operator,
    PROJECT: api.projectName,
    ETAG: await etagFor(operations[id]?.ifMatch),
  };
  const { code, stdout, stderr } = await runProgram('sh', ['-c', script], { env });
  expect([id, code, stderr]).toEqual([id, 0, '']);
  const status = Number(/^HTTP\/1.1 (\d{3})/m.exec(await readFile(headers, 'utf8'))?.[1]);
  return { status, body: stdout };
}

async function etagFor(kind: EtagKind | undefined): Promise<string> {
  const params = { monitorId: MONITOR };
  const named = (id: string) => real.get(id) ?? '';
  switch (kind) {
    case 'configuration':
      return (await api.manage.call('getMonitor', { params })).etag;
    case 'callback-endpoint':
      return (await api.manage.call('getCallback', { params: { endpointId: named(ID.endpoint) } })).etag;
    case 'project':
      return (await api.owner.call('getProject', { params: { projectId: named(ID.project) } })).etag;
    case 'credential':
      return (await api.owner.call('getCredential', { params: { credentialId: named(ID.credential) } })).etag;
    default:
      return '';
  }
}

/** Ids that later examples name. */
async function learn(id: string, body: string): Promise<void> {
  const answer = () => JSON.parse(body);
  if (id === 'createProject') real.set(ID.project, answer().projectId);
  if (id === 'createCredential') real.set(ID.credential, answer().credential.credentialId);
  if (id === 'createCallback') real.set(ID.endpoint, answer().endpoint.id);
  if (id === 'createMonitor') real.set(PUBLISH_ID, answer().publishUrl.split('/').at(-1));
  if (id === 'createDraft') {
    real.set(ID.draft, answer().id);
    // One of the two is applied, and the other one canceled.
    const { params, body: same } = exampleOf(id);
    const other = await api.manage.expectSuccess(id, { params: { ...params }, body: same });
    real.set(ID.otherDraft, other.body.id);
  }
  if (id === 'listMonitorIncidents') real.set(ID.incident, answer().items[0].incidentId);
  if (id === 'listIncidentDeliveries') real.set(ID.delivery, answer().items[0].deliveryId);
}

/**
 * Maps of the caller and free-form facts: their keys are no fields. No sweeper runs here, so deliveries have a next
 * attempt.
 */
const FREE = /(^|\.)(labels|measurements|detail|delivery)\.|(^|\.)nextAttemptAt$|^nextCursor$/;

function pathsOf(value: unknown, prefix = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => pathsOf(item, `${prefix}[]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = prefix === '' ? key : `${prefix}.${key}`;
    return [path, ...pathsOf(inner, path)];
  });
}

describe('the examples of /docs', () => {
  it('the order has every operation, and every address of beats', () => {
    const shown = [...page.matchAll(/<h3 id="(\w+)">/g)].map(([, id = '']) => id);
    expect([...ORDER].sort()).toEqual(shown.filter((id) => id in operations || id.startsWith('ping')).sort());
    expect(Object.keys(operations).filter((id) => !ORDER.includes(id))).toEqual([]);
  });

  it.each(ORDER)(
    'the example of %s works as it stands, and its answer has no field that the page does not show',
    async (id) => {
      if (id === 'suggestRule') await sendMeasured(`${api.url}/ping/${real.get(PUBLISH_ID)}`, MIN_VALUES);
      const { status, body } = await run(id);
      expect([id, status, body]).toEqual([id, operations[id]?.success ?? 200, body]);
      await learn(id, body);
      const { answer } = exampleOf(id);
      if (answer === undefined || id === 'getOpenApi') return;
      const shown = new Set(pathsOf(answer));
      const missing = pathsOf(JSON.parse(body)).filter((path) => !FREE.test(path) && !shown.has(path));
      expect([...new Set(missing)]).toEqual([]);
    },
  );
});

describe('the sentences of the refusals on /docs', () => {
  const request = (spec: OperationSpec): ApiRequest => {
    const { params, query, body } = exampleOf(spec.operationId);
    const etag = spec.ifMatch && formatEtag(spec.ifMatch, 1);
    return { params: { ...params }, query: { ...query }, body, ifMatch: etag };
  };
  const isOperators = ({ preset }: OperationSpec) => preset === 'operator';
  const ownerOr = (spec: OperationSpec) => (isOperators(spec) ? api.operator : api.owner);
  const tokenFor = (spec: OperationSpec) => (isOperators(spec) ? api.tokens.operator : api.tokens.owner);
  /** A call that makes the refusal, where any operation has it. */
  const PROVOKED: Record<string, (spec: OperationSpec) => Promise<ApiAnswer<unknown>>> = {
    noToken: (spec) => call(api.anonymous, spec, {}),
    missingKey: (spec) => call(ownerOr(spec), spec, { idempotencyKey: null }),
    noETag: (spec) => call(ownerOr(spec), spec, { ifMatch: undefined }),
    malformedETag: (spec) => call(ownerOr(spec), spec, { ifMatch: 'configuration-7' }),
    missingBody: (spec) => call(ownerOr(spec), spec, { body: undefined }),
    badLimit: (spec) => call(ownerOr(spec), spec, { query: { ...request(spec).query, limit: 201 } }),
    badWait: (spec) => call(ownerOr(spec), spec, { query: { waitSeconds: 31 } }),
    unknownParameter: (spec) => call(ownerOr(spec), spec, { query: { verbose: 'yes' } }),
    missingProject: (spec) => call(ownerOr(spec).as(tokenFor(spec), null), spec, {}),
    onlyReads: (spec) => call(api.read, spec, {}),
    notASession: (spec) => call(api.manage, spec, {}),
    notOwner: (spec) => call(api.manage, spec, {}),
    notOwnerOrOperator: (spec) => call(api.manage, spec, {}),
    notOperator: (spec) => call(api.owner, spec, {}),
    unknownNotifier: (spec) => call(api.owner, spec, { body: { notifierId: 'pager' } }),
    notAcceptableStream: (spec) => call(ownerOr(spec), spec, { headers: { accept: 'text/html' } }),
    foreignCheckpoint: (spec) => call(ownerOr(spec), spec, { query: { cursor: 'none' } }),
    notAcceptable: (spec) => call(ownerOr(spec), spec, { headers: { accept: 'text/html' } }),
  };
  const call = (client: ApiClient, spec: OperationSpec, change: ApiRequest) =>
    client.call(spec.operationId as OperationId, { ...request(spec), ...change });

  it.each(Object.keys(PROVOKED))(
    'the api answers %s in the words of the page, wherever it is shown',
    async (name) => {
      const refusal = REFUSALS[name];
      // What does not exist is 404 before it is 403.
      const exists = ({ params }: OperationSpec) =>
        refusal?.code !== 'permission_denied' || params === undefined;
      const specs = Object.values(operations).filter((spec) => refusal?.by(spec) && exists(spec));
      expect(specs.length).toBeGreaterThan(0);
      for (const spec of specs) {
        const { problem } = await (PROVOKED[name]?.(spec) ?? Promise.reject(new Error(name)));
        expect([spec.operationId, problem?.code]).toEqual([spec.operationId, `service.${refusal?.code}`]);
        expect(problem?.remediation).toEqual(refusal && remediationOf(refusal.code));
        for (const fault of refusal?.fieldErrors ?? []) expect(problem?.fieldErrors).toContainEqual(fault);
        if (!refusal?.fieldErrors)
          expect([spec.operationId, problem?.detail]).toEqual([spec.operationId, refusal?.detail]);
      }
    },
  );
});
