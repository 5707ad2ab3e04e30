// A database as a process has it that dies at one of its next statements, before or after the server has run it, or that
// stands still where it holds nothing. What it had under way is rolled back, as with a process that is gone.
import type { Connection, Database, Pool } from '../../src/store/postgres/pool.ts';

export class Death extends Error {}

export interface Fate {
  /** Statements that it has left; undefined: it lives. */
  statements?: number;
  /** Whether the last one reaches the server. */
  isAnswerLost?: boolean;
  /** Each time that it is about to connect and holds nothing. */
  atRest?: () => Promise<void>;
}

/** `pool` for one process. Several databases may share the fate of one. */
export function mortal(pool: Pool, fate: Fate): Database & Pool {
  const ask = async (db: { query: Pool['query'] }, args: unknown[]): Promise<unknown> => {
    const run = () => (db.query as (...args: unknown[]) => Promise<unknown>)(...args);
    if (fate.statements === undefined) return await run();
    fate.statements -= 1;
    if (fate.statements > 0) return await run();
    if (fate.statements === 0 && fate.isAnswerLost) await run();
    throw new Death('The process is gone.');
  };
  const connect = async (): Promise<Connection> => {
    await fate.atRest?.();
    const connection = await pool.connect();
    return new Proxy(connection, {
      get(target, name) {
        if (name === 'query') return (...args: unknown[]) => ask(target as never, args);
        if (name === 'release') return (broken?: Error) => target.release(broken);
        return Reflect.get(target, name) as unknown;
      },
    });
  };
  const query = async (...args: unknown[]) => {
    await fate.atRest?.();
    return await ask(pool as never, args);
  };
  return { query, connect } as never;
}
