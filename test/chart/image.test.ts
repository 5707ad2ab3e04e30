// The chart uses only commands and settings that the image has.
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Outcome, runProgram } from '../support/run-program.ts';
import { listValuesFiles, pick, render, requireHelm } from './helm.ts';
import { listPods } from './pods.ts';

const found = await requireHelm();
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

describe.skipIf(found === undefined)('what the chart asks of the image', () => {
  it.each(listValuesFiles())('every command and variable of a pod exists in the image: %s', async (file) => {
    const manifests = await render(found ?? '', {}, file);
    for (const { owner, containers } of listPods(manifests)) {
      for (const { args, env = [], image } of containers.filter(({ args }) => args?.[0] !== 'postgres')) {
        if (args === undefined) continue; // the pod of helm test has its own command
        expect(image).toContain('beatkeeper');
        const { code, stdout } = await help(args);
        expect(code, `${owner}: ${args.join(' ')}`).toBe(0);
        const names = env
          .map(({ name }) => name)
          .filter((name) => name !== 'POSTGRES_PASSWORD' && name !== 'HTTPS_PROXY');
        for (const name of names) expect(stdout, `${owner}: ${name}`).toContain(asInHelp(name));
      }
    }
  });

  it('the ConfigMap has only settings that a role reads', async () => {
    const { data } = pick(await render(found ?? ''), 'ConfigMap', 'beatkeeper-config');
    const names = Object.keys(data as Record<string, string>);
    const texts = await Promise.all(['api', 'sweeper', 'migrate'].map((role) => help([role])));
    const known = texts.map(({ stdout }) => stdout).join('');
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) expect(known).toContain(name);
  });
});

/** A variable of one jurisdiction is in the help once for all of them. */
const asInHelp = (name: string) =>
  name.replace(/^JURISDICTION_(UNRESTRICTED|EU|US|FEDRAMP)_/, 'JURISDICTION_<NAME>_');

const answers = new Map<string, Promise<Outcome>>();

function help(args: string[]): Promise<Outcome> {
  const key = args.join(' ');
  const answer = answers.get(key) ?? runProgram(process.execPath, [main, ...args, '--help']);
  answers.set(key, answer);
  return answer;
}
