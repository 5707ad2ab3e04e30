// `kubectl-beat` as a process: help, and refusals that need no cluster. A refusal is one sentence, with exit code 2.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { compileCache } from '../../support/compile-cache.ts';
import { listen } from '../../support/listen.ts';
import { runProgram } from '../../support/run-program.ts';

const MAIN = fileURLToPath(new URL('../../../src/kubectl/main.ts', import.meta.url));
const COMMANDS = [
  'status',
  'explain',
  'url',
  'send',
  'pause',
  'resume',
  'maintenance',
  'ack',
  'replay',
  'dashboard',
];

describe('kubectl-beat', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kubectl-beat-'));
  const kubeconfig = join(folder, 'config');
  beforeAll(async () => {
    // A port at which nobody listens any more.
    const { port, close } = await listen(createServer());
    await close();
    const config = {
      'current-context': 'a',
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
      users: [{ name: 'u', user: { token: 'very-secret' } }],
      contexts: [{ name: 'a', context: { cluster: 'c', user: 'u' } }],
    };
    writeFileSync(kubeconfig, stringify(config));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const run = (args: readonly string[], env: NodeJS.ProcessEnv = { KUBECONFIG: kubeconfig }) =>
    runProgram(process.execPath, [MAIN, ...args], {
      env: { PATH: process.env.PATH, HOME: folder, ...compileCache, ...env },
    });

  it.each([[[]], [['--help']], [['help']]])('with %j it prints the commands', async (args) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const name of COMMANDS) expect(stdout).toMatch(new RegExp(`^ {2}${name}( |$)`, 'm'));
  });

  it.each(COMMANDS)('%s --help prints its use and options, and needs no cluster', async (name) => {
    const { code, stdout } = await run([name, '--help'], {});
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^Usage: kubectl beat ${name}`));
    for (const option of ['--kubeconfig', '--context', '-n, --namespace', '-o, --output']) {
      expect(stdout).toContain(option);
    }
  });

  it.each([
    [['stauts'], 'There is no command stauts: `kubectl beat --help` lists the commands.'],
    [['status', '--wrong'], 'Unknown option --wrong: `kubectl beat status --help` lists the options.'],
    [['status', 'worker'], 'The command is `kubectl beat status`'],
    [['explain'], 'The command is `kubectl beat explain <monitor>`'],
    [['status', '-o', 'yaml'], 'There is no output yaml: state -o json, or leave it out.'],
    [['status', '--context', 'b'], 'The kubeconfig has no context b: it has a.'],
    [['status', '--kubeconfig', 'nowhere'], 'There is no kubeconfig nowhere: correct --kubeconfig.'],
    [
      ['status'],
      'The cluster does not answer, so kubectl beat cannot list the Monitors in the namespace default',
    ],
    [['send', 'worker', '--fail', '--start'], 'A beat has one kind: state either --fail or --start.'],
    [['maintenance', 'worker'], 'State how long: --for 2h, or --end to end a window.'],
    [['explain', 'worker', '--at', 'noon'], '--at noon is no time'],
    [['explain', 'worker', '--role', 'admin'], 'There is no role admin: state viewer, member or owner.'],
    [['dashboard', '--port', '0'], '--port 0 is no port'],
    [['replay', 'rows', '--timeout', 'long'], '--timeout long is no duration'],
    [['ack', 'worker', '--note='], '--note is empty'],
  ])('%j is refused in one sentence that says what to do', async (args, sentence) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`kubectl beat: ${sentence}`);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(stderr).not.toContain('very-secret');
  });

  it('without any kubeconfig it says how to name one', async () => {
    const { code, stderr } = await run(['status'], {});
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'kubectl beat: There is no kubeconfig: set KUBECONFIG, or state --kubeconfig.\n',
    });
  });
});
