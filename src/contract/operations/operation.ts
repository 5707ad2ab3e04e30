// How the contract describes an operation, and the types of handlers and clients that follow. The operations are in
// operations.ts and the *-operations.ts files.
import type { z } from 'zod';
import type { Role } from '../../domain/access.ts';
import type { EtagKind } from '../fields/headers.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
export type SuccessStatus = 200 | 201 | 202 | 204;

/** Who may call an operation (docs/contract/tenancy.md). */
export type Preset = 'read' | 'manage' | 'session' | 'owner' | 'owner_or_operator' | 'operator';

/**
 * The session roles that a preset admits. A credential with preset `read` counts as viewer, with `manage` as member; the preset
 * `session` admits none.
 */
export const PRESET_ROLES: Readonly<Record<Preset, readonly Role[]>> = {
  read: ['viewer', 'member', 'owner', 'operator'],
  manage: ['member', 'owner', 'operator'],
  session: ['viewer', 'member', 'owner'],
  owner: ['owner'],
  owner_or_operator: ['owner', 'operator'],
  operator: ['operator'],
};

export interface OperationSpec {
  operationId: string;
  method: Method;
  /** Path parameters as `{name}`. */
  path: `/v1/${string}`;
  tag: string;
  summary: string;
  description?: string;
  preset: Preset;
  /** Whether a session must name a project in `Service-Project`. */
  project: 'required' | 'optional' | 'none';
  params?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** A missing body counts as `{}`. */
  bodyOptional?: boolean;
  /** How many bytes the body may have after inflation. Absent: as many as that of nearly every call, 16 KiB. */
  maxBodyBytes?: number;
  /** The operation reads the body itself, as text: also one that `body` does not describe is answered. */
  rawBody?: true;
  /** It only reads, whatever its method: a suspended organization may call it. */
  changesNothing?: true;
  /** `Idempotency-Key` is required. */
  idempotent?: boolean;
  /** `If-Match` is required, with an ETag of this kind. */
  ifMatch?: EtagKind;
  /** The answer carries an `ETag` of this kind. */
  etag?: EtagKind;
  /** The replay of a 201 is a 200. */
  success: SuccessStatus;
  /** Absent where the answer has no body, or is streamed. */
  response?: z.ZodType;
  /** Media types of an answer that is sent while it is made, the default first. Of lines: the schema of one. */
  streams?: Readonly<Record<string, z.ZodType>>;
  /** What it changes stands in the log (docs/operations.md). */
  audited?: true;
}

/** Preserves the literal types of a definition. */
export function operation<const Spec extends OperationSpec>(spec: Spec): Spec {
  return spec;
}

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;
type Input<Schema> = Schema extends z.ZodType ? z.input<Schema> : undefined;
type Field<Spec, Key extends string> = Spec extends { [K in Key]: infer Value } ? Value : undefined;
type IfTrue<Spec, Key extends string, Value> = Spec extends { [K in Key]: true } ? Value : undefined;
type IfSet<Spec, Key extends string, Value> = Field<Spec, Key> extends undefined ? undefined : Value;

/** Without the keys whose only value is `undefined`. */
type Present<Fields> = { [Key in keyof Fields as Fields[Key] extends undefined ? never : Key]: Fields[Key] };
type OptionalWhenEmpty<Value> = Value extends object ? (Partial<Value> extends Value ? true : false) : false;

/** The input of a handler: parsed, with defaults filled in. */
export type InputOf<Spec> = Present<{
  params: Output<Field<Spec, 'params'>>;
  query: Output<Field<Spec, 'query'>>;
  body: Spec extends { rawBody: true } ? string : Output<Field<Spec, 'body'>>;
  idempotencyKey: IfTrue<Spec, 'idempotent', string>;
  /**
   * The version that the ETag names. It is 0, which no resource has, for an ETag that the service never made: compare,
   * and throw `precondition_failed` when it differs.
   */
  ifMatch: IfSet<Spec, 'ifMatch', number>;
}>;

/** What a client sends: fields with defaults may be left out. */
export type RequestOf<Spec> = Present<{
  params: Input<Field<Spec, 'params'>>;
  body: Input<Field<Spec, 'body'>>;
  idempotencyKey: IfTrue<Spec, 'idempotent', string>;
  ifMatch: IfSet<Spec, 'ifMatch', string>;
}> &
  QueryPart<Input<Field<Spec, 'query'>>>;
type QueryPart<Query> = Query extends undefined
  ? object
  : OptionalWhenEmpty<Query> extends true
    ? { query?: Query }
    : { query: Query };

/** The body of a success; undefined for a 204. */
export type ResultOf<Spec> = Output<Field<Spec, 'response'>>;

export interface UrlParts {
  params?: Readonly<Record<string, unknown>>;
  query?: Readonly<Record<string, unknown>>;
}

/** Encoded path and query string of a call. Leaves out undefined query values, repeats the parameter of a list. */
export function operationUrl(spec: OperationSpec, { params = {}, query = {} }: UrlParts): string {
  const path = spec.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) search.append(name, String(item));
  }
  return search.size === 0 ? path : `${path}?${search}`;
}
