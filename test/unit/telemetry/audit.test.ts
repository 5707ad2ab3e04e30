// The level of audit lines.
import { expect, it } from 'vitest';
import { writeAudit } from '../../../src/telemetry/audit.ts';
import { createLog } from '../../../src/telemetry/log.ts';

const LINE = {
  actor: { kind: 'session', id: 'ada', display: 'Ada' },
  action: 'credential.revoke',
  object: { kind: 'credential', id: 'bkc_1' },
} as const;

function auditedAt(level: string): Record<string, unknown>[] {
  const lines: Record<string, unknown>[] = [];
  const log = createLog(
    { role: 'api', level },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  writeAudit(log, LINE);
  log.info('Something else.');
  return lines;
}

it.each(['warn', 'error'])(
  'an audit line is written at the level %s, which other lines of info do not reach',
  (level) => {
    expect(auditedAt(level)).toEqual([expect.objectContaining({ level: 'info', role: 'api', audit: LINE })]);
  },
);

it('the level silent writes no audit line either', () => {
  expect(auditedAt('silent')).toEqual([]);
});
