// The objects that Stripe publishes for tests: from the file that STRIPE_FIXTURES names (`openapi/fixtures3.json` of
// stripe/openapi), else from the Go module of Stripe's own mock server, which ships that file.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from '../../src/dev/processes/executable.ts';
import { runProgram } from './run-program.ts';

const MODULE = 'github.com/stripe/stripe-mock@v0.203.0';

export type StripeObject = Record<string, unknown>;

/** By their kinds (`subscription`, `price`); none where they cannot be had, which is said. */
export async function readStripeFixtures(): Promise<Record<string, StripeObject>> {
  const path = process.env.STRIPE_FIXTURES || (await findInModule());
  return path === undefined ? {} : JSON.parse(await readFile(path, 'utf8')).resources;
}

async function findInModule(): Promise<string | undefined> {
  const go = await findOnPath('go');
  if (go === undefined) return sayMissing('There is no go on PATH, and STRIPE_FIXTURES names no file.');
  const { code, stdout, stderr } = await runProgram(go, ['mod', 'download', '-json', MODULE]);
  if (code !== 0) return sayMissing(`go mod download ended with code ${code}: ${stderr}`);
  return join(JSON.parse(stdout).Dir, 'embedded/openapi/fixtures3.json');
}

function sayMissing(why: string): undefined {
  console.error(`The objects of Stripe's events have few fields. ${why}`);
}
