// The four log levels that this room uses. A pino logger fits as it is.

export interface KubeLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const drop = (): void => undefined;

/** A log that drops everything: the default where no log is passed. */
export const silentLog: KubeLog = { debug: drop, info: drop, warn: drop, error: drop };
