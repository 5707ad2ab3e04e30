// Builds and fetches what tests need from Go modules, where this machine lacks it, so that no time limit of a test counts that:
// `.ci/run` runs it first.
import { findHelm3 } from './helm3.ts';
import { findPromtool } from './promtool.ts';
import { readStripeFixtures } from './stripe-fixtures.ts';

for (const find of [findPromtool, findHelm3]) console.log((await find()) ?? 'There is no Go.');
console.log(`${Object.keys(await readStripeFixtures()).length} objects of Stripe`);
