// The log of a process: JSON lines on standard output, with secrets taken out.
// Levels: error wakes somebody, warn is looked at in the morning, info tells what happened, debug is for us.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { redactLine } from './redact.ts';

export type Log = Logger;

export interface LogOptions {
  role: string;
  level: string;
}

/** Makes the log of a role; `destination` is standard output unless a test reads it. */
export function createLog({ role, level }: LogOptions, destination?: DestinationStream): Log {
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: redactLine },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}
