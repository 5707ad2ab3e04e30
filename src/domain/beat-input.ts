// Parses a beat (docs/contract/beats.md) from the address's last part, the query and the body. A fault becomes a
// refusal: the job ran, so a refused beat still moves a running deadline.
import { BEAT_STATUSES, type BeatStatus } from './beat.ts';
import { IDENTIFIER_PATTERN } from './id.ts';
import { checkJsonStructure } from './json-structure.ts';
import type { FieldError } from './problem.ts';
import { ProblemError, WHOLE_BODY } from './problem.ts';
import { parseTimestamp } from './timestamp.ts';

export interface BeatInput {
  /** A cancel comes in a JSON body alone. */
  kind: BeatStatus;
  runId?: string;
  exitStatus?: number;
  message?: string;
  observedAt?: string;
  measurements?: Record<string, number>;
}

/** A beat whose content is refused. Its kind is that of its address, else that of its body as far as it could be read. */
export interface RefusedBeat {
  kind: BeatStatus;
  problem: ProblemError;
}

export const MAX_MESSAGE_CHARACTERS = 1024;
const MEASUREMENT_KEY = /^[a-z][a-z0-9_]{0,63}$/;

/** The meaning of the address's last part. Undefined for an unknown suffix (404). */
export function kindOfSuffix(
  suffix: string | undefined,
): { kind?: BeatStatus; exitStatus?: number } | undefined {
  if (suffix === undefined) return {};
  if (suffix === 'start' || suffix === 'fail' || suffix === 'log') return { kind: suffix };
  if (!/^(0|[1-9]\d{0,2})$/.test(suffix)) return undefined;
  const exitStatus = Number(suffix);
  if (exitStatus > 255) return undefined;
  return { kind: exitStatus === 0 ? 'success' : 'fail', exitStatus };
}

/** Whether a beat of this kind moves a running deadline. A start begins a clock, and moves none that runs. */
export function movesDeadline(kind: BeatStatus): boolean {
  return kind === 'success' || kind === 'fail';
}

/** A malformed `rid` is ignored: a beat is not lost for its label. */
export function runIdOf(rid: unknown): string | undefined {
  return typeof rid === 'string' && IDENTIFIER_PATTERN.test(rid) ? rid : undefined;
}

/** The last 1,024 characters of a text body; NUL becomes U+FFFD, because Postgres stores no NUL. */
export function messageOf(text: string): string | undefined {
  const message = cut(text.replaceAll('\0', '\uFFFD'));
  return message === '' ? undefined : message;
}

/** Cuts between code points, so that no character is split. */
function cut(text: string): string {
  if (text.length <= MAX_MESSAGE_CHARACTERS) return text;
  return [...text.slice(-2 * MAX_MESSAGE_CHARACTERS)].slice(-MAX_MESSAGE_CHARACTERS).join('');
}

type Path = { kind?: BeatStatus; exitStatus?: number };

/** A beat without a JSON body of ours. */
export function plainBeat(path: Path, rid: unknown, message?: string): BeatInput {
  return { kind: path.kind ?? 'success', exitStatus: path.exitStatus, runId: runIdOf(rid), message };
}

export function refusedBeat({ kind = 'success' }: Path, problem: ProblemError): RefusedBeat {
  return { kind, problem };
}

/** Reads a JSON body. JSON of other senders is a text. */
export function jsonBeat(path: Path, rid: unknown, text: string): BeatInput | RefusedBeat {
  if (text.trim() === '') return plainBeat(path, rid);
  let { kind } = path;
  try {
    const body = parse(text);
    if (!isBeat(body)) return plainBeat(path, rid, messageOf(text));
    kind ??= BEAT_STATUSES.find((one) => one === body.status);
    checkJsonStructure(text);
    return readFields(path, rid, body);
  } catch (error) {
    if (error instanceof ProblemError) return refusedBeat({ kind }, error);
    throw error;
  }
}

/** Throws `validation_failed` with every fault. */
function readFields(path: Path, rid: unknown, body: Body): BeatInput {
  const errors: FieldError[] = [];
  const fault = (at: string, code: string, message: string) => errors.push({ path: at, code, message });
  for (const key of Object.keys(body)) {
    if (!FIELDS.has(key))
      fault(
        key.slice(0, 256),
        'unrecognized_key',
        `Remove this field: a beat has ${[...FIELDS].join(', ')}.`,
      );
  }
  const status = readStatus(body, path, fault);
  const exitStatus = readExitStatus(body, path, fault);
  const beat: BeatInput = {
    kind: status ?? path.kind ?? (exitStatus ? 'fail' : 'success'),
    exitStatus,
    runId: readRunId(body, fault) ?? runIdOf(rid),
    message: readMessage(body, fault),
    observedAt: readObservedAt(body, fault),
    measurements: readMeasurements(body, fault),
  };
  if (errors.length > 0) {
    throw new ProblemError('validation_failed', {
      detail: `The beat is not valid: ${errors[0]?.path}: ${errors[0]?.message}`.slice(0, 1024),
      fieldErrors: errors.slice(0, 32),
    });
  }
  return beat;
}

const FIELDS = new Set(['measurements', 'message', 'observedAt', 'status', 'runId', 'exitStatus']);
const OURS_ALONE = new Set(['measurements', 'observedAt', 'runId', 'exitStatus']);

type Fault = (path: string, code: string, message: string) => void;
type Body = Record<string, unknown>;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed('The body is not JSON. Send a JSON object, or text with another content type.', cause);
  }
}

/**
 * Whether JSON is a beat, and is checked as one (docs/contract/beats.md): other systems have a `status` and a `message`
 * too. One misspelled key beside one of ours that others do not send is a mistake, and is refused.
 */
function isBeat(value: unknown): value is Body {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  const { status } = value as Body;
  return (
    keys.every((key) => FIELDS.has(key)) ||
    keys.some((key) => OURS_ALONE.has(key)) ||
    BEAT_STATUSES.some((kind) => kind === status)
  );
}

function malformed(message: string, cause: unknown): ProblemError {
  return new ProblemError('validation_failed', {
    detail: message,
    fieldErrors: [{ path: WHOLE_BODY, code: 'malformed_body', message }],
    cause,
  });
}

function readStatus(body: Body, path: Path, fault: Fault): BeatStatus | undefined {
  const { status } = body;
  if (status === undefined) return undefined;
  const kind = BEAT_STATUSES.find((one) => one === status);
  if (kind === undefined) {
    fault('status', 'invalid_value', `Use one of ${BEAT_STATUSES.join(', ')}.`);
    return undefined;
  }
  if (path.kind !== undefined && path.kind !== kind) {
    fault(
      'status',
      'contradicts_address',
      `The address says ${path.kind}: leave the status out, or use the plain address.`,
    );
  }
  return kind;
}

function readExitStatus(body: Body, path: Path, fault: Fault): number | undefined {
  const { exitStatus } = body;
  if (exitStatus === undefined) return path.exitStatus;
  if (typeof exitStatus !== 'number' || !Number.isInteger(exitStatus) || exitStatus < 0 || exitStatus > 255) {
    fault('exitStatus', 'out_of_range', 'Use a whole number from 0 to 255.');
    return undefined;
  }
  if (path.exitStatus !== undefined && path.exitStatus !== exitStatus) {
    fault('exitStatus', 'contradicts_address', `The address says ${path.exitStatus}: leave exitStatus out.`);
  }
  return exitStatus;
}

function readRunId(body: Body, fault: Fault): string | undefined {
  const { runId } = body;
  if (runId === undefined) return undefined;
  if (typeof runId === 'string' && IDENTIFIER_PATTERN.test(runId)) return runId;
  fault('runId', 'invalid_format', 'Use 1 to 128 letters, digits, _ or -, beginning with a letter or digit.');
  return undefined;
}

function readMessage(body: Body, fault: Fault): string | undefined {
  const { message } = body;
  if (message === undefined) return undefined;
  if (typeof message !== 'string') {
    fault('message', 'invalid_type', 'Use a string.');
    return undefined;
  }
  if (message.length > MAX_MESSAGE_CHARACTERS && [...message].length > MAX_MESSAGE_CHARACTERS) {
    fault('message', 'too_long', `Use at most ${MAX_MESSAGE_CHARACTERS} characters.`);
    return undefined;
  }
  return messageOf(message.isWellFormed() ? message : message.toWellFormed());
}

function readObservedAt(body: Body, fault: Fault): string | undefined {
  const { observedAt } = body;
  if (observedAt === undefined) return undefined;
  const ms = typeof observedAt === 'string' ? parseTimestamp(observedAt) : undefined;
  if (ms !== undefined) return new Date(ms).toISOString();
  fault('observedAt', 'invalid_format', 'Use an RFC 3339 date and time, such as 2026-01-31T08:00:00Z.');
  return undefined;
}

function readMeasurements(body: Body, fault: Fault): Record<string, number> | undefined {
  const { measurements } = body;
  if (measurements === undefined) return undefined;
  if (typeof measurements !== 'object' || measurements === null || Array.isArray(measurements)) {
    fault('measurements', 'invalid_type', 'Use an object of numbers by measurement key.');
    return undefined;
  }
  const entries = Object.entries(measurements as Record<string, unknown>);
  for (const [key, value] of entries) {
    const at = `measurements.${key}`.slice(0, 256);
    if (!MEASUREMENT_KEY.test(key)) {
      fault(at, 'invalid_key', 'Use 1 to 64 lower-case letters, digits or _, beginning with a letter.');
    } else if (typeof value !== 'number' || !Number.isFinite(value)) {
      fault(at, 'invalid_number', 'Use a finite number.');
    }
  }
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Record<string, number>);
}
