// `kubectl beat dashboard`: a way to the API and a token for it, until Ctrl-C. The address has the token in its fragment,
// which no server sees.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chooseRoles, createToken, openAddress, ROLE_OPTION } from '../api-access.ts';
import type { Command } from '../command.ts';
import { isGiven, textOf } from '../option.ts';
import { Refusal } from '../refusal.ts';
import { findRelease, RELEASE_OPTION } from '../release.ts';
import { type SignInFile, writeSignInFile } from '../sign-in-file.ts';
import { formatJson } from '../table.ts';

export const DASHBOARD: Command = {
  name: 'dashboard',
  operands: [],
  summary: 'forwards a port to the dashboard and prints the address that signs in, until Ctrl-C',
  details:
    'The address has a token that is good for ten minutes: it is a secret, like a password. --open gives the browser a file of your home, which only you can read and which is gone after a minute.',
  options: [
    { name: 'port', value: 'number', text: 'of this machine; default: a free one' },
    { name: 'open', text: 'opens the address in a browser, and prints it without the token' },
    ROLE_OPTION,
    RELEASE_OPTION,
  ],
  isEndless: true,
  async run({ cluster, values, isJson, note, print, signal }) {
    const port = readPort(textOf(values, 'port'));
    const roles = chooseRoles(textOf(values, 'role'), ['member', 'viewer', 'owner']);
    const stated = textOf(values, 'release');
    const isNamed = (stated ?? cluster.api.release) !== undefined;
    const release = findRelease(stated, cluster.api, isNamed ? [] : await cluster.listMonitors(false));
    const token = await createToken(cluster, release, roles);
    const address = await openAddress(cluster, release, { port, onFault: note });
    let file: SignInFile | undefined;
    try {
      const base = address.url.replace(/\/+$/, '');
      if (isGiven(values, 'open')) file = await writeSignInFile(signInUrl(base, token));
      const isOpened = file !== undefined && (await openBrowser(file.path, signal));
      if (file !== undefined && !isOpened) note('No browser could be opened: open the address yourself.');
      const shown = isOpened ? `${base}/` : signInUrl(base, token);
      print(isJson ? formatJson({ url: shown, port: Number(new URL(base).port) }) : shown);
      note('Ctrl-C ends it.');
      await untilAborted(signal);
      return { json: undefined, text: '' };
    } finally {
      await file?.remove();
      await address.close();
    }
  },
};

/** Without a port that it forwards nothing else would keep the process, and the command would end by itself. */
async function untilAborted(signal: AbortSignal): Promise<void> {
  const keepsProcess = setInterval(() => undefined, 3_600_000);
  try {
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    clearInterval(keepsProcess);
  }
}

export function signInUrl(base: string, token: string): string {
  return `${base}/sign-in#token=${token}`;
}

function readPort(text: string | undefined): number {
  if (text === undefined) return 0;
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535) {
    throw new Refusal(`--port ${text} is no port: state a number from 1 to 65535.`);
  }
  return port;
}

/** True if the program that opens files took it. One that shows the page itself goes on for as long as it does. */
async function openBrowser(path: string, signal: AbortSignal): Promise<boolean> {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(program, [path], { stdio: 'ignore', detached: true });
  return await new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('exit', (code) => resolve(code === 0));
    signal.addEventListener('abort', () => resolve(true), { once: true });
  });
}
