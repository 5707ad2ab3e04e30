// The contract as an operation of its own: /v1/openapi.json takes a credential like every operation. The public copy
// is in docs.ts.
import { openApiDocument } from '../../contract/openapi/openapi-document.ts';
import type { Handlers } from '../operation.ts';

export function contractHandlers(publicUrl: string): Handlers<'getOpenApi'> {
  const body = openApiDocument({ serverUrl: publicUrl });
  return { getOpenApi: async () => ({ status: 200, body }) };
}
