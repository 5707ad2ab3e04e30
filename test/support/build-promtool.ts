// Builds promtool where this machine has none, so that no time limit of a test counts the build: `.ci/run` runs it first.
import { requirePromtool } from './promtool.ts';

console.log((await requirePromtool()) ?? 'none');
