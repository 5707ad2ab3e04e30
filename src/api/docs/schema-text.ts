// JSON Schema in words: types with their bounds, and the fields of an object with everything inside of it.
import type { JsonObject } from '../../contract/json-schema.ts';
import { type Html, html, prose } from './html.ts';

type Schema = JsonObject;
type Fields = Record<string, Schema>;

/** The fields of an object, of its nested objects, lists and maps, and of each form that it may have. */
export function fieldTable(schema: Schema, id?: string): Html {
  const rows = fieldsOf(schema, '');
  if (rows.length === 0) return html`<p${id && html` id="${id}"`}>${typeOf(schema)}</p>`;
  return html`<table${id && html` id="${id}"`}><thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col"></th></tr></thead>
<tbody>${rows}</tbody></table>`;
}

/** `a`, `a.b`, `a[].b`, `a.<key>`: every field below `prefix`. */
function fieldsOf(schema: Schema, prefix: string): Html[] {
  const { properties, items, additionalProperties } = schema as {
    properties?: Fields;
    items?: Schema;
    additionalProperties?: Schema | boolean;
  };
  if (properties) {
    const required = (schema.required ?? []) as string[];
    return Object.entries(properties).flatMap(([name, field]) =>
      fieldRows(field, prefix === '' ? name : `${prefix}.${name}`, required.includes(name)),
    );
  }
  if (items) return fieldsOf(items, `${prefix}[]`);
  if (typeof additionalProperties === 'object') return fieldsOf(additionalProperties, `${prefix}.<key>`);
  return formsOf(schema).flatMap((form) => formRows(form, prefix));
}

function fieldRows(field: Schema, path: string, required: boolean): Html[] {
  const note = required ? '' : html` <small>optional</small>`;
  const row = html`<tr><td><code>${path}</code>${note}</td><td>${typeOf(field)}</td><td class="wide">${prose(descriptionOf(field))}</td></tr>\n`;
  return [row, ...fieldsOf(field, path)];
}

/** The fields of one form of a union, but for those that say which form it is. */
function formRows(form: Schema, prefix: string): Html[] {
  const { properties = {}, required = [] } = form as { properties?: Fields; required?: string[] };
  const free = Object.entries(properties).filter(([, field]) => !('const' in field));
  return free.flatMap(([name, field]) =>
    fieldRows(field, prefix === '' ? name : `${prefix}.${name}`, required.includes(name)),
  );
}

function descriptionOf({ description, deprecated }: Schema): string {
  const text = typeof description === 'string' ? description : '';
  return deprecated === true && !/deprecated/i.test(text) ? `Deprecated. ${text}` : text;
}

/** The objects among the branches of a union. */
function formsOf(schema: Schema): Schema[] {
  return branchesOf(schema).filter((branch) => branch.properties !== undefined);
}

function branchesOf(schema: Schema): Schema[] {
  return (schema.oneOf ?? schema.anyOf ?? schema.allOf ?? []) as Schema[];
}

/** A type in words, with its bounds. */
export function typeOf(schema: Schema): Html {
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.split('/').at(-1) ?? '';
    return html`<a href="#schema-${name}">${name}</a>`;
  }
  const branches = branchesOf(schema);
  if (branches.length > 0) return joined(branches.map(branchText));
  if (Array.isArray(schema.enum)) {
    const words = schema.enum.map((value, index) => html`${index > 0 && ', '}<code>${String(value)}</code>`);
    return html`${schema.enum.length > 1 && 'one of '}${words}${defaultOf(schema)}`;
  }
  if ('const' in schema) return html`<code>${JSON.stringify(schema.const)}</code>`;
  const bounds = boundsOf(schema);
  const more = bounds === '' ? '' : `, ${bounds}`;
  if (schema.type === 'array') return html`list of ${typeOf((schema.items ?? {}) as Schema)}${more}`;
  if (typeof schema.additionalProperties === 'object') {
    return html`map of key to ${typeOf(schema.additionalProperties as Schema)}${more}`;
  }
  return html`${[schema.type ?? 'any value'].flat().map(String).join(' or ')}${more}`;
}

/** A form of a union is written out: `{kind: "named", alias}`. */
function branchText(branch: Schema): Html {
  const { properties, required = [] } = branch as { properties?: Fields; required?: string[] };
  if (!properties) return typeOf(branch);
  const parts = Object.entries(properties).map(([name, field]) => {
    if ('const' in field) return `${name}: ${JSON.stringify(field.const)}`;
    return required.includes(name) ? name : `${name}?`;
  });
  return html`<code>{${parts.join(', ')}}</code>`;
}

function joined(parts: readonly Html[]): Html {
  return html`${parts.map((part, index) => html`${index > 0 && ' or '}${part}`)}`;
}

function defaultOf(schema: Schema): string {
  return schema.default === undefined ? '' : `, default ${JSON.stringify(schema.default)}`;
}

const SIZES = [
  ['minLength', 'maxLength', 'characters'],
  ['minItems', 'maxItems', 'items'],
  ['minProperties', 'maxProperties', 'entries'],
] as const;

/** `60 to 31,536,000`, `1 to 160 characters`, `default 50`; empty where there are none. */
export function boundsOf(schema: Schema): string {
  const number = (value: unknown) =>
    Math.abs(Number(value)) >= Number.MAX_SAFE_INTEGER ? undefined : Number(value).toLocaleString('en-US');
  const span = (from: unknown, to: unknown, unit = '') => {
    const low = from === undefined ? undefined : number(from);
    const high = to === undefined ? undefined : number(to);
    if (low === undefined && high === undefined) return [];
    const text =
      high === undefined ? `at least ${low}` : low === undefined ? `at most ${high}` : `${low} to ${high}`;
    return [`${text}${unit && ` ${unit}`}`];
  };
  const parts = [
    ...span(schema.minimum, schema.maximum),
    ...SIZES.flatMap(([from, to, unit]) => span(schema[from], schema[to], unit)),
    ...(typeof schema.format === 'string' ? [schema.format] : []),
    ...(schema.default === undefined ? [] : [`default ${JSON.stringify(schema.default)}`]),
  ];
  return parts.join(', ');
}
