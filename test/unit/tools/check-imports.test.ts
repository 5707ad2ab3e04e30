import { describe, expect, it } from 'vitest';
import { findCircle, findImportFaults, readImportTable } from '../../../tools/check-imports.ts';

const TABLE = readImportTable(`
| room | is | may import |
|---|---|---|
| \`src/domain\` | pure | nothing |
| \`src/store\` | Postgres | \`domain\`, \`pg\` |
| \`src/store/samples\` | samples | \`@scope/sample\` |
| \`src/main.ts\` | the start | \`*\` |
`);

describe('the check of imports', () => {
  it('an import of Node, of the same room, or of a room or package that the table names is accepted', () => {
    const text = `import { a } from './a.ts';
import type { B } from '../domain/b.ts';
import {
  c,
} from 'pg';
import 'node:fs';
const d = await import('../domain/d.ts');
`;
    expect(findImportFaults(TABLE, 'src/store/x.ts', text)).toEqual([]);
  });

  it('an import of a room that the table does not name is refused with a list of what may be imported', () => {
    const text = `import { a } from '../store/a.ts';\n`;
    expect(findImportFaults(TABLE, 'src/domain/x.ts', text)).toEqual([
      'src/domain/x.ts may not import src/store/a.ts: src/domain may import nothing.',
    ]);
  });

  it.each([
    `export { a } from 'zod';\n`,
    `import 'zod';\n`,
    `import {\n  a,\n} from 'zod/v4';\n`,
    `const a = await import('zod');\n`,
  ])('an import of a package that the table does not name is refused: %j', (text) => {
    expect(findImportFaults(TABLE, 'src/store/x.ts', text)).toEqual([
      'src/store/x.ts may not import zod: src/store may import domain, pg.',
    ]);
  });

  it('a folder with a row of its own is a room of its own: the row with the longest path applies', () => {
    expect(findImportFaults(TABLE, 'src/store/samples/x.ts', `import 'pg';\n`)).toHaveLength(1);
    expect(findImportFaults(TABLE, 'src/store/samples/x.ts', `import '@scope/sample/deep';\n`)).toEqual([]);
  });

  it('a file that no row covers is refused, and the message asks for a row', () => {
    expect(findImportFaults(TABLE, 'src/new/x.ts', '')).toEqual([
      'src/new/x.ts is in no room of docs/architecture.md: add a row.',
    ]);
  });

  it('a room whose row says * may import everything', () => {
    expect(findImportFaults(TABLE, 'src/main.ts', `import 'zod';\nimport './store/a.ts';\n`)).toEqual([]);
  });
});

describe('the search for circles', () => {
  const files = (imports: Record<string, string>) =>
    new Map(
      Object.entries(imports).map(([file, target]) => [file, `import type { A } from './${target}';\n`]),
    );

  it('a circle of types is found, and shown from its first file back to it', () => {
    const imports = files({ 'src/a.ts': 'b.ts', 'src/b.ts': 'c.ts', 'src/c.ts': 'b.ts' });
    expect(findCircle(imports)).toEqual(['src/b.ts', 'src/c.ts', 'src/b.ts']);
  });

  it('two ways to one file are no circle', () => {
    const imports = files({ 'src/a.ts': 'c.ts', 'src/b.ts': 'c.ts', 'src/c.ts': 'd.ts' });
    expect(findCircle(imports)).toBeUndefined();
  });
});
