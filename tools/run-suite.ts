// `node tools/run-suite.ts RESULT COMMAND...`: runs a suite of vitest for CI. Each file that fails runs once more by itself:
// a machine that is busy for a moment fails no suite, and a fault fails twice. The exit code is 0 when every test passed in
// the last run of its file. RESULT is written after each run: a suite that is stopped leaves what it knew.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** With more failed files than this the suite is broken, or the machine is: second runs would only take time. */
const MOST_SECOND_RUNS = 20;

export interface SuiteResult {
  passed: number;
  failed: number;
  /** Files that failed and passed by themselves; the command, if it failed without a failed file and then passed. */
  secondRuns: string[];
}

interface Counts {
  passed: number;
  failed: number;
}

interface Run {
  /** Tests by file. A file that failed has at least one failed test, also if it could not be loaded. */
  files: Map<string, Counts>;
  /** The command failed, but no file did: vitest could not start, or an error came from outside of the tests. */
  failedOutside: boolean;
}

interface Report {
  testResults: { name: string; status: string; assertionResults: { status: string }[] }[];
}

/** Runs the suite and the second runs, and writes the result whenever it changes. Never throws for a failed test. */
export async function runSuite(resultFile: string, command: readonly string[]): Promise<SuiteResult> {
  const secondRuns: string[] = [];
  let run = await runOnce(command);
  const write = () => writeResult(resultFile, run, secondRuns);
  write();
  if (run.failedOutside) {
    announce(command.join(' '));
    run = await runOnce(command);
    if (!run.failedOutside && failedFiles(run).length === 0) secondRuns.push(command.join(' '));
    return write();
  }
  const failed = failedFiles(run);
  if (failed.length > MOST_SECOND_RUNS) return write();
  for (const file of failed) {
    const name = relative(process.cwd(), file);
    announce(name);
    const again = await runOnce([...command, file]);
    const counts = again.files.get(file);
    if (again.failedOutside || counts === undefined) continue; // what the first run found stands
    run.files.set(file, counts);
    if (counts.failed === 0) secondRuns.push(name);
    write();
  }
  return write();
}

async function runOnce(command: readonly string[]): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'run-suite-'));
  try {
    const report = join(folder, 'report.json');
    const code = await start([
      ...command,
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
    ]);
    const run = { files: readReport(report), failedOutside: false };
    run.failedOutside = code !== 0 && failedFiles(run).length === 0;
    return run;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function start([program = '', ...args]: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit' });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}

/** Without files if vitest ended before it could write the report. */
function readReport(path: string): Run['files'] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return new Map();
  }
  const report: Report = JSON.parse(text);
  return new Map(
    report.testResults.map(({ name, status, assertionResults }) => {
      const count = (wanted: string) => assertionResults.filter((test) => test.status === wanted).length;
      const failed = status === 'failed' ? Math.max(count('failed'), 1) : 0;
      return [name, { passed: count('passed'), failed }];
    }),
  );
}

function failedFiles({ files }: Run): string[] {
  return [...files].filter(([, counts]) => counts.failed > 0).map(([file]) => file);
}

function writeResult(path: string, run: Run, secondRuns: string[]): SuiteResult {
  const counts = [...run.files.values()];
  const result = {
    passed: counts.reduce((sum, { passed }) => sum + passed, 0),
    failed: counts.reduce((sum, { failed }) => sum + failed, run.failedOutside ? 1 : 0),
    secondRuns,
  };
  writeFileSync(path, JSON.stringify(result));
  return result;
}

function announce(name: string): void {
  console.log(`\n== ${name} failed: its second run\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [resultFile, ...command] = process.argv.slice(2);
  if (resultFile === undefined || command.length === 0) {
    throw new Error('Usage: node tools/run-suite.ts RESULT COMMAND...');
  }
  const { failed } = await runSuite(resultFile, command);
  process.exitCode = failed === 0 ? 0 : 1;
}
