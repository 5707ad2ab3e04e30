// Which fields the objects of one name have ever set, as the API keeps them with the origin (docs/contract/kubernetes.md,
// "Origin"): what an object is made again without goes back to its default. Pure.

/** What the API accepts; well below what a body may have beside it. */
const MAX_FIELDS = 200;
const MAX_CHARACTERS = 3_000;
/** The fields of users' own names, the more numerous ones first. */
const GROUPS = ['measurements', 'labels'] as const;

/** `labels.*`: objects of this name have set some labels, and which is not known any more. */
export const anyOf = (group: (typeof GROUPS)[number]): string => `${group}.*`;

/**
 * Sorted, and never less than is recorded. What is too much to keep becomes `measurements.*`, then `labels.*`: then an
 * object that is made again gives up all measurements or labels that it lacks.
 */
export function fieldsToRecord(recorded: readonly string[], added: readonly string[]): string[] {
  let fields = [...new Set([...recorded, ...added])].sort();
  for (const group of GROUPS) {
    const isWhole = fields.includes(anyOf(group)) || isTooMuch(fields);
    if (!isWhole) continue;
    const others = fields.filter((field) => !field.startsWith(`${group}.`));
    if (others.length < fields.length) fields = [...others, anyOf(group)].sort();
  }
  return fields;
}

function isTooMuch(fields: readonly string[]): boolean {
  return fields.length > MAX_FIELDS || JSON.stringify(fields).length > MAX_CHARACTERS;
}
