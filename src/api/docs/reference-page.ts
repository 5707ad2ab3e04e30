// The page /docs: every operation and schema of the OpenAPI document, for people.
import type { JsonObject } from '../../contract/json-schema.ts';
import { type Html, html, prose } from './html.ts';
import { page } from './page.ts';

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: JsonObject;
}

interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters?: (Parameter | { $ref: string })[];
  requestBody?: { required?: boolean; content: Record<string, { schema: JsonObject }> };
  responses: Record<string, ResponseObject | { $ref: string }>;
}

interface ResponseObject {
  description: string;
  content?: Record<string, { schema?: JsonObject }>;
}

/** The part of the document that this page reads. */
export interface ReferenceDocument {
  info: { title: string; description: string };
  paths: Record<string, Record<string, unknown>>;
  components: Record<string, Record<string, unknown>>;
}

interface Entry {
  method: string;
  path: string;
  operation: Operation;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

export function referencePage(document: ReferenceDocument): string {
  const entries = listEntries(document);
  const tags = [...new Set(entries.flatMap(({ operation }) => operation.tags))];
  const ofTag = (tag: string) => entries.filter(({ operation }) => operation.tags.includes(tag));
  const schemas = Object.entries(document.components.schemas ?? {}) as [string, JsonObject][];
  return page(
    '/docs',
    'API',
    html`<h1>${document.info.title} API</h1>
${document.info.description.split('\n\n').map((text) => html`<p>${prose(text)}</p>`)}
<h2>Operations</h2>
${tags.map((tag) => html`<h3>${tag}</h3><ul>${ofTag(tag).map(indexItem)}</ul>`)}
${tags.map((tag) => html`<h2>${tag}</h2>${ofTag(tag).map((entry) => operationSection(document, entry))}`)}
<h2 id="schemas">Schemas</h2>
<ul class="columns">${schemas.map(([name]) => html`<li><a href="#schema-${name}">${name}</a></li>`)}</ul>
${schemas.map(([name, schema]) => html`<section id="schema-${name}"><h3>${name}</h3>${schemaBody(schema)}</section>`)}`,
  );
}

function listEntries(document: ReferenceDocument): Entry[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => method in item).map((method) => ({
      method: method.toUpperCase(),
      path,
      operation: item[method] as Operation,
    })),
  );
}

function indexItem({ method, path, operation }: Entry): Html {
  return html`<li><a href="#${operation.operationId}">${operation.summary}</a> <code>${method} ${path}</code></li>`;
}

function operationSection(document: ReferenceDocument, { method, path, operation }: Entry): Html {
  const parameters = (operation.parameters ?? []).map((one) => resolve<Parameter>(document, one));
  return html`<section id="${operation.operationId}">
<h3>${operation.summary}</h3>
<p><code><span class="method">${method}</span> ${path}</code></p>
${operation.description ? html`<p>${prose(operation.description)}</p>` : undefined}
${parameters.length > 0 && html`<table><tr><th>Parameter</th><th>In</th><th>Type</th><th></th></tr>${parameters.map(parameterRow)}</table>`}
${operation.requestBody && html`<p>Body: ${bodyTypes(operation.requestBody.content)}</p>`}
${responseTable(document, operation)}</section>`;
}

/** Successes with their bodies. Errors have one body everywhere: their statuses are enough. */
function responseTable(document: ReferenceDocument, operation: Operation): Html {
  const responses = Object.entries(operation.responses);
  const errors = responses.map(([status]) => status).filter((status) => Number(status) >= 400);
  return html`<table><tr><th>Status</th><th>Body</th><th></th></tr>
${responses
  .filter(([status]) => !errors.includes(status))
  .map(([status, response]) => responseRow(status, resolve<ResponseObject>(document, response)))}
</table>
<p>Errors, each a <a href="/docs/problems">problem</a>: ${errors.join(', ')}.</p>`;
}

function parameterRow({ name, in: where, required, schema = {}, description }: Parameter): Html {
  return html`<tr><td><code>${name}</code></td><td>${where}${required && ', required'}</td><td>${typeOf(schema)}</td><td>${prose(description)}</td></tr>`;
}

function responseRow(status: string, { description, content = {} }: ResponseObject): Html {
  return html`<tr><td>${status}</td><td>${bodyTypes(content)}</td><td>${prose(description)}</td></tr>`;
}

function bodyTypes(content: Record<string, { schema?: JsonObject }>): Html {
  return html`${Object.entries(content).map(([type, { schema = {} }]) => html`<code>${type}</code> ${typeOf(schema)} `)}`;
}

function schemaBody(schema: JsonObject): Html {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, JsonObject>);
  const required = (schema.required ?? []) as string[];
  const description = typeof schema.description === 'string' ? html`<p>${prose(schema.description)}</p>` : '';
  if (properties.length === 0) return html`${description}<p>${typeOf(schema)}</p>`;
  return html`${description}<table><tr><th>Field</th><th>Type</th><th></th></tr>
${properties.map(
  ([name, property]) =>
    html`<tr><td><code>${name}</code>${required.includes(name) ? '' : ' (optional)'}</td><td>${typeOf(property)}</td><td>${prose(String(property.description ?? ''))}</td></tr>`,
)}</table>`;
}

const BOUNDS: Record<string, string> = {
  minimum: 'from',
  maximum: 'to',
  minLength: 'at least',
  maxLength: 'at most',
  maxItems: 'at most',
  format: '',
  default: 'default',
};

function typeOf(schema: JsonObject): Html {
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.split('/').at(-1) ?? '';
    return html`<a href="#schema-${name}">${name}</a>`;
  }
  const branches = (schema.oneOf ?? schema.anyOf ?? schema.allOf) as JsonObject[] | undefined;
  if (branches)
    return html`${branches.map((branch, index) => html`${index > 0 && ' or '}${typeOf(branch)}`)}`;
  if (Array.isArray(schema.enum)) {
    return html`${schema.enum.map((value, index) => html`${index > 0 && ', '}<code>${String(value)}</code>`)}`;
  }
  if ('const' in schema) return html`<code>${JSON.stringify(schema.const)}</code>`;
  if (schema.type === 'array') return html`list of ${typeOf((schema.items ?? {}) as JsonObject)}`;
  const bounds = Object.entries(BOUNDS)
    .filter(([key]) => schema[key] !== undefined && typeof schema[key] !== 'object')
    .map(([key, word]) => ` ${word} ${String(schema[key])}`.replace('  ', ' '));
  return html`${[schema.type ?? 'any'].flat().map(String).join(' or ')}${bounds.join(',')}`;
}

function resolve<T extends object>(document: ReferenceDocument, value: T | { $ref: string }): T {
  if (!('$ref' in value)) return value;
  const [, , kind = '', name = ''] = String(value.$ref).split('/');
  return document.components[kind]?.[name] as T;
}
