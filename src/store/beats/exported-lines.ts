// The lines of an export. Postgres gives the rows of a monitor `m` as one text, a row a line, and the parts of a row with a tab
// between them; here they become bytes (exported-bytes.ts), because an export has millions of them. A line says what
// presentObservation and the contract's observation say (a test holds them together).
import { json, type LineText, lines, observationLines } from './exported-bytes.ts';

export type HistoryFormat = 'ndjson' | 'csv';

export interface LineForm {
  /** SQL over `m`: what each of its lines begins with. */
  head: string;
  /** SQL over a row, `o` or `b`: its parts. They have no tab and no line feed of their own. */
  row: string;
  text: LineText;
}

/** In the time zone UTC, which the transaction sets: `at time zone` costs more. */
const iso = (time: string) => `to_char((${time})::timestamp, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const optional = (value: string, text: string) => `case when ${value} is not null then concat(${text}) end`;
const member = (name: string, column: string, text = column) => optional(column, `',"${name}":', ${text}`);
const time = (name: string, column: string) => optional(column, `',"${name}":"', ${iso(column)}, '"'`);
const quoted = (text: string) => `'"', replace(${text}, '"', '""'), '"'`;
const quotedJson = (column: string, absent: string) => quoted(`coalesce(${column}::text, '${absent}')`);
const toJson = (column: string) => `to_json(${column})`;
const LATE = `case when o.late then 'true' else 'false' end`;

const headOf = (type: string) =>
  `concat('{"type":"${type}","projectId":"', m.project_id, '","monitorId":', ${toJson('m.monitor_id')}, ',"jurisdiction":"', m.jurisdiction, '"')`;

/** A beat without details but measurements, as most are. */
const IS_SHORT = `not o.late and o.violations is null and o.message is null
  and o.run_id is null and o.observed_at is null and o.duration_seconds is null and o.exit_status is null`;

/** A row without details has three parts. */
const rowOf = ({ measured, detailed }: { measured: string; detailed: string }) =>
  `concat_ws(E'\\t', o.sequence, o.kind, o.received_at,
    case when not (${IS_SHORT}) then ${detailed} when o.measurements is not null then ${measured} end)`;

export const OBSERVATION_LINES: Record<HistoryFormat, LineForm> = {
  ndjson: {
    head: headOf('observation'),
    row: rowOf({
      measured: `concat(',"measurements":', o.measurements, ',"late":false,"violations":[]')`,
      detailed: `concat(${time('observedAt', 'o.observed_at')},
        ',"measurements":', coalesce(o.measurements::text, '{}'),
        ${member('durationSeconds', 'o.duration_seconds')}, ${member('exitStatus', 'o.exit_status')},
        ${member('message', 'o.message', toJson('o.message'))}, ${member('runId', 'o.run_id', toJson('o.run_id'))},
        ',"late":', ${LATE}, ',"violations":', coalesce(o.violations::text, '[]'))`,
    }),
    text: observationLines({
      names: [',"sequence":', ',"kind":"', '","receivedAt":"'],
      plain: '","measurements":{},"late":false,"violations":[]}\n',
      detailed: ['"', '}\n'],
    }),
  },
  csv: {
    // Ids need no quotes. The last column is the cursor: of the last line before a checkpoint alone.
    head: `concat(m.project_id, ',', m.monitor_id, ',', m.jurisdiction)`,
    // As JSON: a message may have tabs and line feeds.
    row: rowOf({
      measured: `to_json(concat(',,,,false,"",', ${quotedJson('o.measurements', '{}')}, ',"[]"'))::text`,
      detailed: `to_json(concat(${iso('o.observed_at')}, ',', o.duration_seconds, ',', o.exit_status, ',', o.run_id,
        ',', ${LATE}, ',', ${quoted('o.message')},
        ',', ${quotedJson('o.measurements', '{}')}, ',', ${quotedJson('o.violations', '[]')}))::text`,
    }),
    text: observationLines({
      names: [',', ',', ','],
      plain: ',,,,,false,"","{}","[]",\r\n',
      detailed: [',', ',\r\n'],
      read: json,
    }),
  },
};

export const BUCKET_LINES: LineForm = {
  head: headOf('observation_bucket'),
  row: `concat(',"measurement":', ${toJson('b.measurement')}, ',"startAt":"', ${iso('b.bucket_start')},
    '","endAt":"', ${iso(`b.bucket_start + interval '1 hour'`)}, '","count":', b.count,
    ${member('minimum', 'b.minimum')}, ${member('maximum', 'b.maximum')}, ${member('mean', 'b.mean')})`,
  text: lines('}\n'),
};
