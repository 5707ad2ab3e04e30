// Reads exports as a client does: the whole stream, or up to where it breaks.
import { type ExportRecord, exportRecord } from '../../src/contract/resources/export.ts';

export interface ExportCall {
  url: string;
  token: string;
  /** `Service-Project`. */
  project?: string;
  query?: Record<string, string>;
  accept?: string;
  /** Default: what is sent is as long as its text, and fills buffers. */
  encoding?: string;
  method?: string;
  signal?: AbortSignal;
}

/** A long export that is read in between would leave an idle connection that the server closes. */
const ALONE = { connection: 'close' };

export function fetchExport({
  url,
  token,
  project,
  query = {},
  accept,
  encoding = 'identity',
  ...options
}: ExportCall): Promise<Response> {
  return fetch(`${url}/v1/organization/export?${new URLSearchParams(query)}`, {
    ...options,
    headers: {
      ...ALONE,
      authorization: `Bearer ${token}`,
      'accept-encoding': encoding,
      ...(accept ? { accept } : {}),
      ...(project ? { 'service-project': project } : {}),
    },
  });
}

/** The text of a whole export. Throws for a refusal, and for a stream that breaks. */
export async function readExport(call: ExportCall): Promise<string> {
  const answer = await fetchExport(call);
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`The export was refused: ${answer.status} ${text}`);
  return text;
}

/** Its records. Throws for one that the contract does not describe. */
export function recordsOf(text: string): ExportRecord[] {
  const lines = text.split('\n');
  if (lines.pop() !== '') throw new Error('The last line has no end.');
  return lines.map((line) => {
    const record: unknown = JSON.parse(line);
    const parsed = exportRecord.safeParse(record);
    if (!parsed.success) throw new Error(`${parsed.error.message} in ${line}`);
    return record as ExportRecord;
  });
}

/** Of one type. */
export function ofType<Type extends ExportRecord['type']>(
  records: readonly ExportRecord[],
  type: Type,
): Extract<ExportRecord, { type: Type }>[] {
  return records.filter((record): record is Extract<ExportRecord, { type: Type }> => record.type === type);
}

/** The cells of a table by RFC 4180. */
export function cellsOf(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    row.push(quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'));
    if (end === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}
