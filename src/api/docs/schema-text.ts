// JSON Schema in words: types with their bounds, and the fields of an object with everything inside of it.
import type { JsonObject } from '../../contract/json-schema.ts';
import { type Html, html, prose } from './html.ts';

type Schema = JsonObject;
type Fields = Record<string, Schema>;

/** Finds a schema by its name. */
export type Lookup = (name: string) => Schema;

interface TableOptions {
  id?: string;
  /** Writes out schemas with a name too. Without it they are links. */
  lookup?: Lookup;
}

/** The fields of an object, of its nested objects, lists and maps, and of each form that it may have. */
export function fieldTable(schema: Schema, { id, lookup }: TableOptions = {}): Html {
  const rows = new FieldRows(lookup).of(schema);
  if (rows.length === 0) return html`<p${id && html` id="${id}"`}>${typeOf(schema)}</p>`;
  return html`<table${id && html` id="${id}"`}><thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col"></th></tr></thead>
<tbody>${rows}</tbody></table>`;
}

class FieldRows {
  readonly #lookup: Lookup | undefined;

  constructor(lookup: Lookup | undefined) {
    this.#lookup = lookup;
  }

  /** `a`, `a.b`, `a[].b`, `a.<key>`: every field below `prefix`. */
  of(schema: Schema, prefix = ''): Html[] {
    const { properties, items, additionalProperties } = this.#open(schema) as Parts;
    if (properties) return this.#ofObject(schema, prefix);
    if (items) return this.of(items, `${prefix}[]`);
    if (typeof additionalProperties === 'object') return this.of(additionalProperties, `${prefix}.<key>`);
    return branchesOf(this.#open(schema)).flatMap((form) => this.of(form, prefix));
  }

  /** Without the constants that say which form of a union it is. */
  #ofObject(schema: Schema, prefix: string): Html[] {
    const { properties = {}, required = [] } = this.#open(schema) as Parts;
    const fields = Object.entries(properties).filter(([, field]) => prefix === '' || !('const' in field));
    return fields.flatMap(([name, field]) => {
      const path = prefix === '' ? name : `${prefix}.${name}`;
      return [this.#row(field, path, required.includes(name)), ...this.of(field, path)];
    });
  }

  #row(field: Schema, path: string, required: boolean): Html {
    const note = required ? '' : html` <small>optional</small>`;
    return html`<tr><td><code>${path}</code>${note}</td><td>${this.#type(field)}</td><td class="wide">${prose(descriptionOf(field))}</td></tr>\n`;
  }

  /** The forms of a union with a name stand behind its name. */
  #type(schema: Schema): Html {
    const forms = branchesOf(this.#open(schema));
    if (schema.$ref === undefined) {
      return forms.length > 0 ? joined(forms.map((form) => this.#type(form))) : branchText(schema);
    }
    const isNamed = this.#lookup !== undefined && forms.length > 0;
    return isNamed
      ? html`${typeOf(schema)}: ${joined(forms.map((form) => branchText(this.#open(form))))}`
      : typeOf(schema);
  }

  #open(schema: Schema): Schema {
    if (typeof schema.$ref !== 'string' || !this.#lookup) return schema;
    return this.#lookup(schema.$ref.split('/').at(-1) ?? '');
  }
}

interface Parts {
  properties?: Fields;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
}

/** A field that may be null has its description inside. */
function descriptionOf(schema: Schema): string {
  const { description, deprecated } = schema;
  const [inner] = branchesOf(schema).filter(
    (branch) => branch.$ref === undefined && branch.description !== undefined,
  );
  const text = String(description ?? inner?.description ?? '');
  return deprecated === true && !/deprecated/i.test(text) ? `Deprecated. ${text}` : text;
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
  if (schema.type === 'array') return html`list of ${grouped((schema.items ?? {}) as Schema)}${more}`;
  if (typeof schema.additionalProperties === 'object') {
    return html`map of key to ${grouped(schema.additionalProperties as Schema)}${more}`;
  }
  return html`${[schema.type ?? 'any value'].flat().map(String).join(' or ')}${more}`;
}

/** In parentheses where it could be read together with what follows. */
function grouped(schema: Schema): Html {
  return branchesOf(schema).length > 1 ? html`(${typeOf(schema)})` : typeOf(schema);
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
