// The log of an operator of a test, line by line.
import { createLog, type Log } from '../../src/telemetry/log.ts';

export interface LogLines {
  log: Log;
  lines: Record<string, unknown>[];
  /** Lines with this message. */
  said(message: string): Record<string, unknown>[];
  /** Lines of the level `error` or worse. */
  errors(): Record<string, unknown>[];
}

export function collectLines(): LogLines {
  const lines: Record<string, unknown>[] = [];
  const log = createLog(
    { role: 'operator', level: 'debug' },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  const rank = (level: unknown) => ['error', 'fatal'].includes(String(level));
  return {
    ...{ log, lines },
    said: (message) => lines.filter(({ msg }) => msg === message),
    errors: () => lines.filter(({ level }) => rank(level)),
  };
}
