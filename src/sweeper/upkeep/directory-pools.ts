// The connections of the copies and reports between databases (docs/adr/0013): few, and apart from those of other work, which
// they must not hold up however much there is to copy.
import { openPool, type Pool } from '../../store/postgres/pool.ts';

/** A page of copies, or of a report. */
const STATEMENT_MS = 60_000;
/** To the default database, for all places: one copy, and what is short beside it. */
const TO_DEFAULT = 2;
/** To a place: its copies. */
const TO_PLACE = 1;

/** To the default database. No connection is made before the first statement. */
export function openDirectorySource(databaseUrl: string, onError: (error: Error) => void): Pool {
  return openFew(databaseUrl, TO_DEFAULT, onError);
}

/** To a place. Its copier finds out whose it is and claims it: no gate holds it off. */
export function openDirectoryCopy(databaseUrl: string, onError: (error: Error) => void): Pool {
  return openFew(databaseUrl, TO_PLACE, onError);
}

function openFew(databaseUrl: string, size: number, onError: (error: Error) => void): Pool {
  return openPool({
    databaseUrl,
    size,
    applicationName: 'beatkeeper-directory',
    statementTimeoutMs: STATEMENT_MS,
    // Who waits for a busy one waits no longer than its statement may take.
    busyTimeoutMs: STATEMENT_MS,
    onError,
  });
}
