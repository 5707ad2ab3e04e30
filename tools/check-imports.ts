// `npm run imports`: holds every import of src/ against the table "Rooms" in docs/architecture.md, the only place that
// says who may import whom. What a row does not name is refused, and so is a source file that no row covers, and a
// circle of files, also one of types alone (the linter lets those pass).
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Source folder or file -> what it may import: rooms (`domain` is src/domain), packages, or `*` for everything. */
export type ImportTable = ReadonlyMap<string, ReadonlySet<string>>;

/** Reads the rows whose first cell is a path in backticks. Every word in backticks of the last cell is allowed. */
export function readImportTable(markdown: string): ImportTable {
  const rows = markdown.matchAll(/^\| `(src\/[^`]+)` \|.*\| ([^|]*) \|$/gm);
  return new Map(
    [...rows].map(([, room = '', allowed = '']) => [
      room,
      new Set([...allowed.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)),
    ]),
  );
}

/** The faults of one file, as sentences. `path` and the table's rooms are relative to the checkout. */
export function findImportFaults(table: ImportTable, path: string, text: string): string[] {
  const room = roomOf(table, path);
  if (room === undefined) return [`${path} is in no room of docs/architecture.md: add a row.`];
  const allowed = table.get(room) ?? new Set();
  if (allowed.has('*')) return [];
  return importsOf(text)
    .map((specifier) => targetOf(path, specifier))
    .filter((target) => !isAllowed({ table, room, allowed }, target))
    .map((target) => `${path} may not import ${target}: ${room} may import ${wordsOf(allowed)}.`);
}

/** The row with the longest path above the file: a folder inside a room can have a row of its own. */
function roomOf(table: ImportTable, path: string): string | undefined {
  const rooms = [...table.keys()].filter((room) => path === room || path.startsWith(`${room}/`));
  return rooms.sort((a, b) => b.length - a.length)[0];
}

/** Static and dynamic imports and re-exports, in the one form that the formatter leaves them. */
function importsOf(text: string): string[] {
  const imports = text.matchAll(/^(?:import|export|\})(?:[^'\n]* from)? '([^']+)';$|\bimport\('([^']+)'\)/gm);
  return [...imports].map(([, fixed, dynamic]) => fixed ?? dynamic ?? '');
}

/** A path below the checkout, `node:…`, or the name of a package. */
function targetOf(path: string, specifier: string): string {
  if (specifier.startsWith('.')) return normalize(join(dirname(path), specifier));
  if (specifier.startsWith('node:')) return specifier;
  const depth = specifier.startsWith('@') ? 2 : 1;
  return specifier.split('/').slice(0, depth).join('/');
}

interface Importer {
  table: ImportTable;
  room: string;
  allowed: ReadonlySet<string>;
}

function isAllowed({ table, room, allowed }: Importer, target: string): boolean {
  if (target.startsWith('node:')) return true;
  if (!target.startsWith('src/')) return allowed.has(target);
  if (roomOf(table, target) === room) return true;
  return [...allowed].some((name) => target.startsWith(`src/${name}/`));
}

function wordsOf(allowed: ReadonlySet<string>): string {
  return allowed.size === 0 ? 'nothing' : [...allowed].join(', ');
}

/** The first circle that is found, as its files in order, or undefined. `files`: path -> text. */
export function findCircle(files: ReadonlyMap<string, string>): string[] | undefined {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): string[] | undefined => {
    const begin = path.indexOf(file);
    if (begin >= 0) return [...path.slice(begin), file];
    if (done.has(file)) return undefined;
    path.push(file);
    for (const specifier of importsOf(files.get(file) ?? '')) {
      const circle = visit(targetOf(file, specifier));
      if (circle) return circle;
    }
    path.pop();
    done.add(file);
    return undefined;
  };
  for (const file of files.keys()) {
    const circle = visit(file);
    if (circle) return circle;
  }
  return undefined;
}

function checkTree(root: string): string[] {
  const table = readImportTable(readFileSync(join(root, 'docs/architecture.md'), 'utf8'));
  const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).sort();
  const paths = names.filter((name) => /\.tsx?$/.test(name)).map((name) => `src/${name}`);
  const files = new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
  const circle = findCircle(files);
  const missing = [...table.keys()].filter((room) => !existsSync(join(root, room)));
  return [
    ...missing.map((room) => `docs/architecture.md has a row for ${room}, which is not there.`),
    ...[...files].flatMap(([path, text]) => findImportFaults(table, path, text)),
    ...(circle ? [`These files import each other in a circle: ${circle.join(' -> ')}.`] : []),
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const faults = checkTree(fileURLToPath(new URL('..', import.meta.url)));
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
