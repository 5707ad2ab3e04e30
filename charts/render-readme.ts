// Renders the chart's README from its template and the comments of values.yaml. Run it after a change of either:
// `node charts/render-readme.ts`. With --check it writes nothing and fails if the README is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isCollection, isMap, isScalar, type Pair, parse, parseDocument, type YAMLMap } from 'yaml';

const chart = new URL('./beatkeeper/', import.meta.url);
const readme = new URL('README.md', chart);

interface Value {
  path: string;
  fallback: unknown;
  text: string;
}

/** Renders the README. Throws if a value has no `# --` comment. */
export function renderReadme(): string {
  const read = (name: string) => readFileSync(new URL(name, chart), 'utf8');
  const { kubeVersion, description } = parse(read('Chart.yaml')) as Record<string, string>;
  const rows = listValues(read('values.yaml')).map(
    ({ path, fallback, text }) => `| \`${path}\` | \`${JSON.stringify(fallback)}\` | ${text} |`,
  );
  return read('README.md.template')
    .replace('{{description}}', `${description}`)
    .replace('{{kubernetes}}', `${kubeVersion}`.replace('>=', '').replace('.0-0', ''))
    .replace('{{values}}', ['| value | default | what it does |', '|---|---|---|', ...rows].join('\n'));
}

/** Reads the present README. */
export function readReadme(): string {
  return readFileSync(readme, 'utf8');
}

/** Lists the values in the order of the file. A map with a comment is one value. */
export function listValues(source: string): Value[] {
  const document = parseDocument(source);
  if (!isMap(document.contents)) throw new Error('values.yaml is not a map.');
  return collect(document.contents, []).map(({ path, text }) => {
    const found: unknown = document.getIn(path);
    const fallback = isCollection(found) ? found.toJS(document) : found;
    return { path: path.join('.'), fallback, text };
  });
}

function collect(map: YAMLMap, above: string[]): { path: string[]; text: string }[] {
  return map.items.flatMap((pair, index) => {
    const path = [...above, keyOf(pair)];
    const text = commentOf(pair, index === 0 ? map : undefined);
    if (text !== undefined) return [{ path, text }];
    if (isMap(pair.value)) return collect(pair.value, path);
    throw new Error(`values.yaml: ${path.join('.')} has no comment that begins with "# --".`);
  });
}

function keyOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
}

// The parser attaches the comment above a map's first key to the map.
function commentOf(pair: Pair, map: YAMLMap | undefined): string | undefined {
  const own = isScalar(pair.key) ? pair.key.commentBefore : undefined;
  const lines = (own ?? map?.commentBefore ?? '').split('\n').map((line) => line.trim());
  const begin = lines.findIndex((line) => line.startsWith('--'));
  if (begin < 0) return undefined;
  return lines
    .slice(begin)
    .join(' ')
    .replace(/^--\s*/, '')
    .replaceAll('|', '\\|');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rendered = renderReadme();
  if (!process.argv.includes('--check')) writeFileSync(readme, rendered);
  else if (rendered !== readReadme()) {
    process.stderr.write('charts/beatkeeper/README.md is out of date: run node charts/render-readme.ts\n');
    process.exitCode = 1;
  }
}
