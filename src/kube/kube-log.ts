// The four log levels that this folder uses. A pino logger has this interface.

export interface KubeLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const drop = (): void => undefined;

/** Drops every line. The default for callers that pass no log. */
export const silentLog: KubeLog = { debug: drop, info: drop, warn: drop, error: drop };
