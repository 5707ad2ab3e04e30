// Field schemas that several resources share: identifiers, text, times, addresses, labels (docs/contract/calls.md).
// Each has a message that says what to do. This file knows no resource.
import { z } from 'zod';
import { IDENTIFIER_PATTERN } from '../../domain/id.ts';
import { ACTOR_KINDS, SEVERITIES } from '../../domain/incident.ts';
import { JURISDICTIONS } from '../../domain/monitor.ts';
import { canonicalTime, isWritableTime } from '../../domain/timestamp.ts';

export const MAX_SAFE = Number.MAX_SAFE_INTEGER;
export const YEAR_SECONDS = 31_536_000;

// Control characters are U+0000 to U+001F and U+007F to U+009F. They are escaped in a text, because Go (RE2) reads the
// pattern from the CRDs, and other languages from the OpenAPI document.
const CONTROL = '\\x00-\\x1f\\x7f-\\x9f';
const CONTROL_BUT_LINE_BREAKS = '\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f';
const NO_CONTROL_PATTERN = `^[^${CONTROL}]*$`;
const controlCharacters = new RegExp(`[${CONTROL}]`, 'u');
const controlButLineBreaks = new RegExp(`[${CONTROL_BUT_LINE_BREAKS}]`, 'u');

interface TextOptions {
  minimum: number;
  maximum: number;
  /** Line breaks and tabs are allowed. */
  multiline?: boolean;
  /** Keeps blanks at the ends: they count in a part of a text. */
  untrimmed?: boolean;
}

/**
 * Text for people, trimmed by default. Lengths count code points, as JSON Schema and Postgres do, not UTF-16 units.
 * Refuses control characters and lone surrogates, which databases do not store.
 */
export function text({ minimum, maximum, multiline = false, untrimmed = false }: TextOptions) {
  const forbidden = multiline ? controlButLineBreaks : controlCharacters;
  return (untrimmed ? z.string() : z.string().trim())
    .superRefine((value, context) => {
      const length = [...value].length;
      const refuse = (code: string, message: string) =>
        context.addIssue({ code: 'custom', message, params: { code } });
      if (length < minimum) refuse('too_short', `Must have at least ${minimum} ${characters(minimum)}.`);
      if (length > maximum) refuse('too_long', `Must have at most ${maximum} characters.`);
      if (forbidden.test(value) || !value.isWellFormed()) {
        refuse('invalid_character', 'Remove the control characters.');
      }
    })
    .meta({
      ...(minimum > 0 ? { minLength: minimum } : {}),
      maxLength: maximum,
      ...(multiline ? {} : { pattern: NO_CONTROL_PATTERN }),
    });
}

function characters(count: number): string {
  return count === 1 ? 'character' : 'characters';
}

/** A sentence for every fault of a field except its absence, which has one sentence everywhere. */
export function unlessMissing(message: string) {
  return (issue: { input?: unknown }) => (issue.input === undefined ? undefined : message);
}

/** A whole number with both bounds included. */
export function integer(minimum: number, maximum: number) {
  return z.int().min(minimum).max(maximum);
}

/** A string of 1 to `maximum` characters that a pattern describes. */
export function patterned(pattern: RegExp, maximum: number, message: string) {
  return z.string().min(1).max(maximum).regex(pattern, { error: message });
}

export const identifier = patterned(
  IDENTIFIER_PATTERN,
  128,
  'Must start with a letter or digit, then letters, digits, "_" or "-", at most 128 characters.',
);

export const alias = patterned(
  /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/,
  64,
  'Must start with a letter or digit, then letters, digits, "_" or "-", at most 64 characters.',
);

export const measurementKey = patterned(
  /^[a-z][a-z0-9_]{0,63}$/,
  64,
  'Must start with a lower-case letter, then lower-case letters, digits or "_", at most 64 characters.',
);

export const correlationId = patterned(
  /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/,
  128,
  'Must start with a letter or digit, then letters, digits, ".", "_", ":", "/" or "-", at most 128 characters.',
);

const TIME_MESSAGE = 'Must be an RFC 3339 time such as 2026-01-31T09:00:00Z.';

export const timestamp = z
  .string({ error: unlessMissing(TIME_MESSAGE) })
  .overwrite(canonicalTime)
  .check(z.iso.datetime({ offset: true, error: TIME_MESSAGE }))
  // A value that is not a time at all has another message.
  .refine((value) => Number.isNaN(Date.parse(value)) || isWritableTime(Date.parse(value)), {
    error: 'Must be a time of the years 0001 to 9999 in UTC.',
  });

export const jurisdiction = z.enum(JURISDICTIONS);

export const severity = z.enum(SEVERITIES);

/** The form of a webhook address as one pattern for the CRD and OpenAPI: no user, fragment or blank. */
const CALLBACK_URL_PATTERN = '^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\\s\\\\]+([/?][^#\\s]*)?$';

/**
 * The form of a webhook address (docs/contract/callbacks.md). Plain http is valid here: only the address guard knows which
 * private destinations may use it, and refuses it for all others as a fault of form.
 */
export const callbackUrl = z
  .string()
  .min(1)
  .max(512)
  .superRefine((value, context) => {
    const fault = callbackUrlFault(value);
    if (fault) context.addIssue({ code: 'custom', message: fault, params: { code: 'invalid_url' } });
  })
  .meta({
    format: 'uri',
    pattern: CALLBACK_URL_PATTERN,
    description:
      'Public HTTPS address without user, password or fragment. Plain http is allowed only for private destinations that the installation names.',
  });

function callbackUrlFault(value: string): string | undefined {
  if (!URL.canParse(value)) return 'Must be an absolute URL such as https://example.com/alerts.';
  const url = new URL(value);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'Must begin with https://.';
  if (url.username !== '' || url.password !== '') return 'Remove the user name and password from the URL.';
  if (value.includes('#')) return 'Remove the fragment ("#" and what follows) from the URL.';
  if (!new RegExp(CALLBACK_URL_PATTERN).test(value)) {
    return 'Must be a URL such as https://example.com/alerts, without blanks, "@" or "\\" in its host.';
  }
  return undefined;
}

/** Kubernetes label syntax. */
export const LABEL_KEY_PATTERN =
  '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$';
export const LABEL_VALUE_PATTERN = '^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$';
export const MAX_LABELS = 32;

export const labelKey = patterned(
  new RegExp(LABEL_KEY_PATTERN),
  317,
  'Must be a Kubernetes label key: an optional DNS prefix and "/", then at most 63 letters, digits, "-", "_" or ".".',
).refine((key) => !key.includes('/') || key.indexOf('/') <= 253, {
  error: 'The prefix of a label key has at most 253 characters.',
});
export const labelValue = z.string().max(63).regex(new RegExp(LABEL_VALUE_PATTERN), {
  error: 'Must be a Kubernetes label value: at most 63 letters, digits, "-", "_" or ".", or empty.',
});

/** Refuses a map with more entries than `maximum`: zod has no such bound for records. */
export function atMost(maximum: number, noun: string) {
  return (value: object, context: z.RefinementCtx) => {
    if (Object.keys(value).length <= maximum) return;
    context.addIssue({
      code: 'custom',
      message: `State at most ${maximum} ${noun}.`,
      params: { code: 'too_many' },
    });
  };
}

export const labels = z
  .record(labelKey, labelValue)
  .superRefine(atMost(MAX_LABELS, 'labels'))
  .meta({ maxProperties: MAX_LABELS });

/** Reasons and notes that several records show. */
export const reason = text({ minimum: 1, maximum: 256 });
export const note = text({ minimum: 1, maximum: 1024 });

export const actor = z
  .object({
    kind: z.enum(ACTOR_KINDS),
    id: z.string(),
    display: z.string().min(1).max(160),
  })
  .describe('Who did it.');

export const maintenanceWindow = z.object({
  startsAt: timestamp,
  endsAt: timestamp,
  reason: z.string().min(1).max(256).optional(),
});
