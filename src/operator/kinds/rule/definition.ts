// The definition of a Rule: its hash, and what the API would refuse on every monitor. Pure.
import { parseInput } from '../../../contract/fields/field-errors.ts';
import { draftProposalInput } from '../../../contract/resources/draft.ts';
import type { MeasurementRuleInput } from '../../../contract/resources/measurement-rule.ts';
import { contentHash } from '../../pass/desired-hash.ts';
import type { RuleObject } from './rule-object.ts';

export interface RuleProposal {
  measurementKey: string;
  definition: MeasurementRuleInput;
}

/** `refused`: why the API would refuse the definition on every monitor, a sentence. */
export function proposalOf({ spec }: RuleObject): RuleProposal | { refused: string } {
  const { measurementKey, definition } = spec;
  const parsed = parseInput(draftProposalInput, { measurementKey, definition });
  if (!('fieldErrors' in parsed)) return parsed.value;
  const faults = parsed.fieldErrors.map(({ path, message }) => `${path}: ${message}`);
  return { refused: `The definition is not valid. ${faults.join(' ')}` };
}

/** For `status.appliedRules`: equal definitions of a measurement have equal hashes. */
export function definitionHashOf({ spec: { measurementKey, definition } }: RuleObject): string {
  return contentHash({ measurementKey, definition }, 16);
}
