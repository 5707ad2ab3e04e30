// The lines of an export, which Postgres makes: an export has millions of them. A line says what presentObservation and the
// contract's observation say (a test holds them together). Of a monitor `m` each line has the same head, then the line of a
// row `o` or `b`, then the same end.
export type HistoryFormat = 'ndjson' | 'csv';

export interface LineForm {
  /** SQL over `m`. */
  head: string;
  /** SQL over a row. */
  line: string;
  /** Of each line. */
  end: '}\n' | ',\r\n';
}

/** In the time zone UTC, which the transaction sets: `at time zone` costs more. */
const iso = (time: string) => `to_char((${time})::timestamp, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const optional = (value: string, text: string) => `case when ${value} is not null then concat(${text}) end`;
const member = (name: string, column: string, text = column) => optional(column, `',"${name}":', ${text}`);
const time = (name: string, column: string) => optional(column, `',"${name}":"', ${iso(column)}, '"'`);
const quoted = (text: string) => `'"', replace(${text}, '"', '""'), '"'`;
const quotedJson = (column: string, absent: string) => quoted(`coalesce(${column}::text, '${absent}')`);
const json = (column: string) => `to_json(${column})`;

const headOf = (type: string) =>
  `concat('{"type":"${type}","projectId":"', m.project_id, '","monitorId":', ${json('m.monitor_id')}, ',"jurisdiction":"', m.jurisdiction, '"')`;

/** A beat without details, as most are. */
const IS_PLAIN = `not o.late and o.measurements is null and o.violations is null and o.message is null
  and o.run_id is null and o.observed_at is null and o.duration_seconds is null and o.exit_status is null`;

const JSON_START = `',"sequence":', o.sequence, ',"kind":"', o.kind, '","receivedAt":"', ${iso('o.received_at')}`;
const TABLE_START = `',', o.sequence, ',', o.kind, ',', ${iso('o.received_at')}`;

export const OBSERVATION_LINES: Record<HistoryFormat, LineForm> = {
  ndjson: {
    head: headOf('observation'),
    line: `case when ${IS_PLAIN}
      then concat(${JSON_START}, '","measurements":{},"late":false,"violations":[]')
      else concat(${JSON_START}, '"', ${time('observedAt', 'o.observed_at')},
        ',"measurements":', coalesce(o.measurements::text, '{}'),
        ${member('durationSeconds', 'o.duration_seconds')}, ${member('exitStatus', 'o.exit_status')},
        ${member('message', 'o.message', json('o.message'))}, ${member('runId', 'o.run_id', json('o.run_id'))},
        ',"late":', case when o.late then 'true' else 'false' end,
        ',"violations":', coalesce(o.violations::text, '[]')) end`,
    end: '}\n',
  },
  csv: {
    // Ids need no quotes. The last column is the cursor: of the last line before a checkpoint alone.
    head: `concat(m.project_id, ',', m.monitor_id, ',', m.jurisdiction)`,
    line: `case when ${IS_PLAIN}
      then concat(${TABLE_START}, ',,,,,false,"","{}","[]"')
      else concat(${TABLE_START}, ',', ${iso('o.observed_at')}, ',', o.duration_seconds, ',', o.exit_status, ',', o.run_id,
        ',', case when o.late then 'true' else 'false' end, ',', ${quoted('o.message')},
        ',', ${quotedJson('o.measurements', '{}')}, ',', ${quotedJson('o.violations', '[]')}) end`,
    end: ',\r\n',
  },
};

export const BUCKET_LINES: LineForm = {
  head: headOf('observation_bucket'),
  line: `concat(',"measurement":', ${json('b.measurement')}, ',"startAt":"', ${iso('b.bucket_start')},
    '","endAt":"', ${iso(`b.bucket_start + interval '1 hour'`)}, '","count":', b.count,
    ${member('minimum', 'b.minimum')}, ${member('maximum', 'b.maximum')}, ${member('mean', 'b.mean')})`,
  end: '}\n',
};
