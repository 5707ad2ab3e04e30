// The page /docs: every operation and schema of the OpenAPI document, for people.
import type { JsonObject } from '../../contract/json-schema.ts';
import { contractOperations } from '../../contract/operations/operations.ts';
import { curlOf, type Parameter } from './curl.ts';
import { code, commands, type Html, heading, html, prose, table } from './html.ts';
import { page } from './page.ts';
import { fieldTable, typeOf } from './schema-text.ts';
import { theWords } from './words.ts';

type Reference = { $ref: string };
type Content = Record<
  string,
  { schema?: JsonObject; example?: unknown; examples?: Record<string, Reference> }
>;

interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters?: (Parameter | Reference)[];
  requestBody?: { required?: boolean; description?: string; content: Content };
  responses: Record<string, ResponseObject | Reference>;
  security?: Record<string, unknown>[];
}

interface ResponseObject {
  description: string;
  content?: Content;
}

/** The part of the document that the pages read. */
export interface ReferenceDocument {
  info: { title: string; description: string };
  paths: Record<string, Record<string, unknown>>;
  components: Record<string, Record<string, unknown>>;
}

interface Entry {
  method: string;
  path: string;
  operation: Operation;
  /** Of the path and of the operation. */
  parameters: Parameter[];
}

const OPERATOR_ALONE = new Set<string>(
  Object.values(contractOperations()).flatMap(({ operationId, preset }) =>
    preset === 'operator' ? [operationId] : [],
  ),
);
const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'head'];

export function referencePage(document: ReferenceDocument): string {
  const entries = listEntries(document);
  const tags = [...new Set(entries.flatMap(({ operation }) => operation.tags))];
  const ofTag = (tag: string) => entries.filter(({ operation }) => operation.tags.includes(tag));
  // The body of a request stands with its operation.
  const schemas = Object.entries(document.components.schemas ?? {}).filter(
    ([name]) => !name.endsWith('Request'),
  ) as [string, JsonObject][];
  const written = new Set<string>();
  return page(
    '/docs',
    'API',
    html`<h1>${document.info.title} API</h1>
<p>New here? The <a href="/docs/quickstart">quickstart</a> leads from the first credential to a verified alert.</p>
${document.info.description.split('\n\n').map((text) => html`<p>${prose(text)}</p>`)}
${theExamples()}
${theWords()}
${heading(2, 'Operations')}
${tags.map((tag) => html`<h3>${tag}</h3><ul>${ofTag(tag).map(indexItem)}</ul>`)}
${tags.map((tag) => html`${heading(2, tag)}${ofTag(tag).map((entry) => operationSection(document, entry, written))}`)}
${heading(2, 'Schemas')}
<ul class="columns">${schemas.map(([name]) => html`<li><a href="#schema-${name}">${name}</a></li>`)}</ul>
${schemas.map(([name, schema]) => html`<section>${heading(3, name, `schema-${name}`)}${schemaBody(schema)}</section>`)}`,
  );
}

function theExamples(): Html {
  return html`${heading(2, 'The examples')}
<p>Each operation has an example to run. It takes these variables; the <a href="/docs/quickstart">quickstart</a> says where the tokens come from:</p>
${table(
  ['Variable', 'Is'],
  [
    ['`$BASE`', 'the address of the API, without a path'],
    ['`$TOKEN`', 'an API credential of the preset `manage`, or a session token'],
    ['`$OWNER_TOKEN`, `$PROJECT`', 'a session token of an owner, and the name or id of a project'],
    ['`$OPERATOR_TOKEN`', 'a session token of the operator in a cluster'],
    ['`$ETAG`', 'the header `ETag` of the last read of what is changed, with its quotes; `curl -i` shows it'],
  ],
)}
<p>The ids in the examples are examples too. An <code>Idempotency-Key</code> is yours to choose: a new one for each new request, the same one to send a request again.</p>`;
}

function listEntries(document: ReferenceDocument): Entry[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => method in item).map((method) => {
      const operation = item[method] as Operation;
      const ofPath = (item.parameters ?? []) as (Parameter | Reference)[];
      const parameters = [...ofPath, ...(operation.parameters ?? [])];
      return {
        method: method.toUpperCase(),
        path,
        operation,
        parameters: parameters.map((one) => resolve<Parameter>(document, one)),
      };
    }),
  );
}

function indexItem({ method, path, operation }: Entry): Html {
  return html`<li><a href="#${operation.operationId}">${operation.summary}</a> <code>${method} ${path}</code></li>`;
}

/** `written`: the schemas of bodies that have their place on the page already. */
function operationSection(document: ReferenceDocument, entry: Entry, written: Set<string>): Html {
  const { method, path, operation, parameters } = entry;
  return html`<section>
${heading(3, operation.summary, operation.operationId)}
<p><code><span class="method">${method}</span> ${path}</code></p>
${operation.description ? html`<p>${prose(operation.description)}</p>` : undefined}
${parameters.length > 0 && html`<h4>Parameters</h4><table><thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Type</th><th scope="col"></th></tr></thead><tbody>${parameters.map(parameterRow)}</tbody></table>`}
${requestBody(document, entry, written)}
${example(document, entry)}
${answers(document, operation)}
${refusals(document, operation)}</section>`;
}

/** The schema of a request is written out. Two operations may share one: its first table is the target of links. */
function requestBody(
  document: ReferenceDocument,
  { operation }: Entry,
  written: Set<string>,
): Html | undefined {
  if (!operation.requestBody) return undefined;
  const { required, description, content } = operation.requestBody;
  const lookup = (name: string) => (document.components.schemas?.[name] ?? {}) as JsonObject;
  const bodies = Object.entries(content).map(([type, { schema = {} }]) => {
    const name =
      String(schema.$ref ?? '')
        .split('/')
        .at(-1) ?? '';
    if (!name.endsWith('Request')) return html`<p><code>${type}</code> ${typeOf(schema)}</p>`;
    const id = written.has(name) ? undefined : `schema-${name}`;
    written.add(name);
    return html`<p><code>${type}</code></p>${fieldTable(lookup(name), { id, lookup })}`;
  });
  return html`<h4>Body${required ? '' : ', optional'}</h4>${description && html`<p>${prose(description)}</p>`}${bodies}`;
}

function example(document: ReferenceDocument, { method, path, operation, parameters }: Entry): Html {
  const { operationId, security } = operation;
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const body = type && media?.example !== undefined ? { type, example: media.example } : undefined;
  const isOpen = security?.length === 0;
  const isForOwners = security !== undefined && !security.some((one) => 'apiCredential' in one);
  const signsIn = OPERATOR_ALONE.has(operationId) ? 'OPERATOR_TOKEN' : 'OWNER_TOKEN';
  const token = isOpen ? undefined : isForOwners ? signsIn : 'TOKEN';
  const [status, response] = Object.entries(operation.responses)
    .filter(([one]) => one.startsWith('2'))
    .sort(([a], [b]) => b.localeCompare(a))[0] ?? ['200', { description: '' }];
  return html`<h4>Example</h4>
${commands(curlOf({ method, path, operationId, parameters, body, token }))}
${answerExample(status, resolve<ResponseObject>(document, response))}`;
}

function answerExample(status: string, { content = {} }: ResponseObject): Html {
  const [media] = Object.values(content);
  if (!media) return html`<p>Answer: ${status}, without a body.</p>`;
  const text = media.example ?? (media.schema?.examples as unknown[] | undefined)?.[0];
  const shown = typeof text === 'string' ? text : JSON.stringify(text, null, 2);
  return html`<details><summary>Answer: ${status}</summary>${code(shown ?? '')}</details>`;
}

function answers(document: ReferenceDocument, { responses }: Operation): Html {
  const rows = Object.entries(responses).filter(([status]) => Number(status) < 400);
  return html`<h4>Answers</h4><table><thead><tr><th scope="col">Status</th><th scope="col">Body</th><th scope="col"></th></tr></thead>
<tbody>${rows.map(([status, response]) => answerRow(status, resolve<ResponseObject>(document, response)))}</tbody></table>`;
}

function answerRow(status: string, { description, content = {} }: ResponseObject): Html {
  const types = Object.entries(content).map(
    ([type, { schema = {} }]) => html`<code>${type}</code> ${typeOf(schema)} `,
  );
  return html`<tr><td>${status}</td><td>${types}</td><td class="wide">${prose(description)}</td></tr>`;
}

/** What can go wrong here, with the sentence of an example. */
function refusals(document: ReferenceDocument, { responses }: Operation): Html {
  const errors = Object.entries(responses).filter(([status]) => Number(status) >= 400);
  const rows = errors.flatMap(([status, response]) => {
    const { description, content = {} } = resolve<ResponseObject>(document, response);
    const examples = Object.values(content['application/problem+json']?.examples ?? {});
    if (examples.length === 0) return [textRow(status, { description, content })];
    return examples.map((one) => refusalRow(status, resolve<ProblemExample>(document, one)));
  });
  return html`<details><summary>Errors: ${errors.map(([status]) => status).join(', ')}</summary>
<p>Each is a <a href="/docs/problems">problem</a>; its <code>detail</code> says what to do.</p>
${table(['Status', 'Code', 'When, and what it says'], rows)}</details>`;
}

/** A refusal that is text: that of a beat. */
function textRow(status: string, { description, content = {} }: ResponseObject): [string, Html, Html] {
  const [text] = (content['text/plain']?.schema?.examples ?? []) as string[];
  return [status, html``, html`${prose(description)} ${text && html`<q>${text}</q>`}`];
}

interface ProblemExample {
  summary: string;
  value: { code: string; detail: string; retryAfterSeconds?: number };
}

function refusalRow(status: string, { summary, value }: ProblemExample): [string, Html, Html] {
  const { code: name, detail, retryAfterSeconds } = value;
  const page = `/docs/problems/${name.replace('service.', '')}`;
  const wait = retryAfterSeconds === undefined ? '' : ` Retry-After: ${retryAfterSeconds}.`;
  return [
    status,
    html`<a href="${page}"><code>${name}</code></a>`,
    html`${prose(summary)} <q>${detail}</q>${wait}`,
  ];
}

function parameterRow({ name, in: where, required, schema = {}, description }: Parameter): Html {
  return html`<tr><td><code>${name}</code></td><td>${where}${required && ', required'}</td><td>${typeOf(schema)}</td><td class="wide">${prose(description)}</td></tr>`;
}

function schemaBody(schema: JsonObject): Html {
  const description = typeof schema.description === 'string' ? html`<p>${prose(schema.description)}</p>` : '';
  const forms = schema.properties === undefined ? html`<p>${typeOf(schema)}</p>` : '';
  return html`${description}${forms}${fieldTable(schema)}`;
}

function resolve<T extends object>(document: ReferenceDocument, value: T | Reference): T {
  if (!('$ref' in value)) return value;
  const [, , kind = '', name = ''] = String(value.$ref).split('/');
  return document.components[kind]?.[name] as T;
}
