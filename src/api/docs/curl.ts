// An operation of the OpenAPI document as a line of curl, from the examples that the document has. It works as it stands
// where $BASE and a token are set, and what it names exists.
import type { JsonObject } from '../../contract/json-schema.ts';

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: JsonObject;
  example?: unknown;
}

export interface CurlRequest {
  method: string;
  path: string;
  operationId: string;
  parameters: readonly Parameter[];
  /** Content type and example of the body. */
  body?: { type: string; example: unknown };
  /** Undefined for an address without a token. */
  token?: 'TOKEN' | 'OWNER_TOKEN' | 'OPERATOR_TOKEN';
}

export function curlOf(request: CurlRequest): string {
  const { method, body } = request;
  // curl sends a body with POST, and reads the headers alone with -I.
  const verb =
    method === 'HEAD' ? ' -I' : method === 'GET' || (method === 'POST' && body) ? '' : ` -X ${method}`;
  const lines = [
    `curl -sS${verb} "$BASE${pathOf(request)}"`,
    ...headersOf(request).map((header) => `-H ${header}`),
  ];
  if (body)
    lines.push(`-d ${quote(typeof body.example === 'string' ? body.example : JSON.stringify(body.example))}`);
  return lines.join(' \\\n  ');
}

function pathOf({ path, parameters }: CurlRequest): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const { example, schema } = parameters.find((one) => one.in === 'path' && one.name === name) ?? {};
    return encodeURIComponent(String(example ?? (schema?.examples as unknown[] | undefined)?.[0] ?? name));
  });
  const query = new URLSearchParams();
  for (const { name, in: where, example } of parameters) {
    if (where !== 'query' || example === undefined) continue;
    for (const value of [example].flat()) query.append(name, String(value));
  }
  return query.size === 0 ? filled : `${filled}?${query}`;
}

function headersOf({ operationId, parameters, body, token }: CurlRequest): string[] {
  const has = (name: string) => parameters.some((one) => one.in === 'header' && one.name === name);
  const headers: string[] = [];
  if (token) headers.push(`"Authorization: Bearer $${token}"`);
  // A credential has its own project.
  if (token && token !== 'TOKEN' && has('Service-Project')) headers.push('"Service-Project: $PROJECT"');
  if (token && has('Idempotency-Key')) headers.push(`"Idempotency-Key: ${operationId}-1"`);
  if (has('If-Match')) headers.push('"If-Match: $ETAG"');
  if (body) headers.push(`"Content-Type: ${body.type}"`);
  return headers;
}

/** As one word of a shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
