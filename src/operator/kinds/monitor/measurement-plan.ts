// The part of a configuration patch that is about measurements: by key, and by field inside of a key. Pure.
import { isDeepStrictEqual } from 'node:util';
import { RULE_KINDS } from '../../../contract/resources/measurement-rule.ts';
import type { Monitor } from '../../../contract/resources/monitor.ts';
import type { MonitorObject } from './monitor-object.ts';

type Rules = NonNullable<MonitorObject['spec']['measurements']>;
type Rule = Rules[string];
type Fields = Record<string, unknown>;

/** Keys and fields to change; null takes a rule or a whole measurement away. Empty: nothing differs. */
export function planMeasurements(
  wanted: Rules,
  record: Monitor['measurements'],
  released: ReadonlySet<string>,
): Record<string, Fields | null> {
  const patch: Record<string, Fields | null> = {};
  for (const [key, rule] of Object.entries(wanted)) {
    const current = record[key];
    const changes = planRule(key, rule, { current, released });
    if (current === undefined || Object.keys(changes).length > 0) patch[key] = changes;
  }
  for (const name of released) {
    const [room, key, field] = name.split('.');
    if (room !== 'measurements' || key === undefined || field !== undefined) continue;
    if (wanted[key] === undefined && record[key] !== undefined) patch[key] = null;
  }
  return patch;
}

function planRule(
  key: string,
  rule: Rule,
  { current, released }: { current: Fields | undefined; released: ReadonlySet<string> },
): Fields {
  const changes: Fields = {};
  for (const [field, value] of Object.entries(effective(rule))) {
    const isThere = current?.[field] !== undefined;
    if (value === null ? isThere : !isDeepStrictEqual(current?.[field], value)) changes[field] = value;
  }
  for (const field of Object.keys(current ?? {})) {
    if (released.has(`measurements.${key}.${field}`)) changes[field] = null;
  }
  return changes;
}

/** What the rule says once `disabledRules` are taken off. A ratio is stated whole: what it leaves out, it removes. */
function effective({ disabledRules, ...rule }: Rule): Fields {
  const fields: Fields = Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== undefined));
  for (const kind of RULE_KINDS) if (disabledRules?.includes(kind)) fields[kind] = null;
  return fields;
}

/** The API merges a ratio by its fields; a spec states it whole. For the body of the patch. */
export function withWholeRatios(patch: Record<string, Fields | null>): Record<string, Fields | null> {
  const entries = Object.entries(patch).map(([key, rule]) => [key, rule && withWholeRatio(rule)]);
  return Object.fromEntries(entries);
}

function withWholeRatio(rule: Fields): Fields {
  const { ratio } = rule;
  if (typeof ratio !== 'object' || ratio === null) return rule;
  return { ...rule, ratio: { minimum: null, maximum: null, ...ratio } };
}
