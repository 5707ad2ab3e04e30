import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SuiteResult } from '../../../tools/run-suite.ts';
import { runProgram } from '../../support/run-program.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const PROGRAM = join(ROOT, 'tools/run-suite.ts');
const VITEST = join(ROOT, 'node_modules/vitest/vitest.mjs');
const PASSES = `it('passes', () => undefined);\n`;
const FAILS = `it('fails', () => { throw new Error('a fault'); });\n`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'suite-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** The code of a test file that throws when it runs for the first time. */
const failsOnce = (where: (statement: string) => string) => {
  const mark = JSON.stringify(join(folder, 'has-run'));
  return `import { existsSync, writeFileSync } from 'node:fs';
const isFirst = !existsSync(${mark});
writeFileSync(${mark}, '');
${where(`if (isFirst) throw new Error('the machine is busy')`)}\n`;
};

/** Runs vitest on these files by the program. */
async function run(files: Record<string, string>): Promise<{ code: number; result: SuiteResult }> {
  const root = join(folder, 'suite');
  mkdirSync(root);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(root, name), text);
  const result = join(folder, 'result.json');
  const vitest = [process.execPath, VITEST, 'run', '--globals', '--root', root];
  const { code } = await runProgram(process.execPath, [PROGRAM, result, ...vitest], { cwd: ROOT });
  return { code, result: JSON.parse(readFileSync(result, 'utf8')) };
}

const nameOf = (file: string) => relative(ROOT, join(folder, 'suite', file));

describe('a suite of CI', () => {
  it('passes when every test passes, and needs no second run', async () => {
    expect(await run({ 'a.test.ts': PASSES, 'b.test.ts': PASSES })).toEqual({
      code: 0,
      result: { passed: 2, failed: 0, secondRuns: [] },
    });
  });

  it('passes and names the file when a file fails and passes by itself', async () => {
    const once = failsOnce((statement) => `it('passes later', () => { ${statement} });\n${PASSES}`);
    expect(await run({ 'a.test.ts': PASSES, 'once.test.ts': once })).toEqual({
      code: 0,
      result: { passed: 3, failed: 0, secondRuns: [nameOf('once.test.ts')] },
    });
  });

  it('fails when a file fails by itself too', async () => {
    expect(await run({ 'a.test.ts': PASSES, 'b.test.ts': PASSES + FAILS })).toEqual({
      code: 1,
      result: { passed: 2, failed: 1, secondRuns: [] },
    });
  });

  it('fails when a file cannot be loaded', async () => {
    expect(await run({ 'a.test.ts': PASSES, 'b.test.ts': `import './missing.ts';` })).toEqual({
      code: 1,
      result: { passed: 1, failed: 1, secondRuns: [] },
    });
  });

  it('runs as a whole once more when an error comes from outside of the tests', async () => {
    const once = failsOnce((statement) => `setTimeout(() => { ${statement} });\n${PASSES}`);
    const { code, result } = await run({ 'once.test.ts': once });
    expect({ code, ...result }).toMatchObject({ code: 0, passed: 1, failed: 0 });
    expect(result.secondRuns).toHaveLength(1);
  });

  it('fails when vitest cannot start', async () => {
    const { code, result } = await run({ 'vitest.config.ts': `throw new Error('a fault');` });
    expect({ code, ...result }).toEqual({ code: 1, passed: 0, failed: 1, secondRuns: [] });
  });
});
