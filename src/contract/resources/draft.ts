// Drafts of rules (docs/contract/rules.md): proposals for one measurement that are replayed before they are applied.
import { z } from 'zod';
import {
  DRAFT_EXPIRY_DAYS,
  DRAFT_STATUSES,
  MAX_FROZEN_OBSERVATIONS,
  MAX_OPEN_DRAFTS,
} from '../../domain/draft.ts';
import { DAY_MS, KEPT_DAYS } from '../../domain/retention.ts';
import { RULE_KINDS } from '../../domain/rules/rule-kinds.ts';
import {
  identifier,
  integer,
  jurisdiction,
  MAX_SAFE,
  measurementKey,
  severity,
  timestamp,
} from '../fields/field.ts';
import { incidentState } from './incident.ts';
import { measurementRuleFaults, measurementRuleFields, measurementRuleRecord } from './measurement-rule.ts';

export const OF_DRAFTS = `A monitor has at most ${MAX_OPEN_DRAFTS} open drafts. A draft expires ${DRAFT_EXPIRY_DAYS} days after its last update.`;

const version = integer(1, MAX_SAFE);
const expectedDraftVersion = version.describe('The `version` of the draft that was read.');

/** The checks between fields of a rule need the key, too. */
export const draftProposalInput = z
  .strictObject({
    measurementKey,
    definition: measurementRuleFields.describe(
      'The whole rule of the measurement. Nulls and `disabledRules` remove rules from it.',
    ),
  })
  .superRefine(({ measurementKey: key, definition }, context) => {
    for (const { path, code, message } of measurementRuleFaults(definition, key))
      context.addIssue({ code: 'custom', message, path: ['definition', ...path], params: { code } });
  });

export const createDraftBody = z.strictObject({ proposal: draftProposalInput });

export const updateDraftBody = z.strictObject({
  draftId: identifier,
  expectedDraftVersion,
  proposal: draftProposalInput,
});

export const cancelDraftBody = z.strictObject({
  draftId: identifier,
  expectedDraftVersion: expectedDraftVersion.optional(),
});

export const applyDraftBody = z.strictObject({
  draftId: identifier,
  confirm: z.literal(true, { error: (issue) => (issue.input === undefined ? undefined : 'Must be true.') }),
  expectedDraftVersion,
  expectedConfigurationVersion: version.describe('The `configurationVersion` of the monitor that was read.'),
});

const sequence = integer(1, MAX_SAFE).optional();

export const draftHistory = z
  .object({
    frozenAt: timestamp,
    observationCount: integer(0, MAX_FROZEN_OBSERVATIONS),
    fromSequence: sequence.describe('The first observation of the window. Absent where there is none.'),
    throughSequence: sequence.describe('The last one, included.'),
  })
  .describe('The newest observations when the draft was created, of every kind.');

export const draft = z.object({
  id: identifier,
  monitorKey: identifier.describe('The `monitorId`, by its deprecated name.'),
  jurisdiction,
  version: version.describe('Raised by each update of the proposal.'),
  baseConfigurationVersion: integer(0, MAX_SAFE).describe(
    'The configuration version of the monitor when the draft was created.',
  ),
  appliedConfigurationVersion: integer(0, MAX_SAFE)
    .optional()
    .describe('Of an applied draft: the configuration version that has its rule.'),
  status: z.enum(DRAFT_STATUSES),
  proposal: z.object({ measurementKey, definition: measurementRuleRecord }),
  history: draftHistory,
  createdAt: timestamp,
  updatedAt: timestamp.describe('The creation, or the last update of the proposal.'),
  closedAt: timestamp.optional().describe('Absent while the draft is open.'),
});
export type DraftRecord = z.output<typeof draft>;

/** As long as single observations are kept. */
export const MAX_REPLAY_DAYS = KEPT_DAYS.observations;

export const replayDraftBody = z
  .strictObject({
    draftId: identifier,
    since: timestamp
      .optional()
      .describe('Replays the observations from this time on, included, in place of the frozen window.'),
    until: timestamp
      .optional()
      .describe(`Up to this time, excluded; at most ${MAX_REPLAY_DAYS} days after since. Default: now.`),
  })
  .superRefine(({ since, until }, context) => {
    const refuse = (path: string, code: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message, params: { code } });
    if (until === undefined) return;
    if (since === undefined) {
      refuse('since', 'required', 'State it with until.');
      return;
    }
    const lengthMs = Date.parse(until) - Date.parse(since);
    if (lengthMs < 0) refuse('until', 'ends_before_start', 'Must not be before since.');
    if (lengthMs > MAX_REPLAY_DAYS * DAY_MS)
      refuse('until', 'too_long', `Must be at most ${MAX_REPLAY_DAYS} days after since.`);
  });

const count = integer(0, MAX_SAFE);

export const replayedIncident = z
  .object({
    measurement: z.string(),
    rule: z.enum(RULE_KINDS),
    state: incidentState.describe('At the end of the window.'),
    severity: severity.describe('At the end of the window: a sustained policy may have raised it.'),
    openedAt: timestamp.describe('When the observation was received, or time met the criterion.'),
    openSequence: sequence.describe('The observation that opened it.'),
    lastSequence: sequence.describe('The newest observation that concerned it.'),
    recoveringAt: timestamp.optional(),
    recoveredAt: timestamp.optional(),
    violationCount: count,
    summary: z.string().describe('What opened it, in words.'),
  })
  .describe('An incident that would have opened. Nothing is opened, and nobody is told.');
export type ReplayedIncidentRecord = z.output<typeof replayedIncident>;

export const replayedRule = z
  .object({
    incidents: z.array(replayedIncident).describe('In the order in which they opened.'),
    flaggedCount: count.describe('How many successes violate the rule.'),
    refusedCount: count.describe(
      'How many successes the definition would have refused: it judges none of them.',
    ),
  })
  .describe('What one rule makes of the window.');

export const replayedWindow = z
  .object({
    observationCount: count,
    successCount: count.describe('Only successes are judged.'),
    fromSequence: sequence.describe('The first observation. Absent where there is none.'),
    throughSequence: sequence.describe('The last one, included.'),
    fromAt: timestamp.optional().describe('When the first observation was received.'),
    throughAt: timestamp.optional().describe('When the last one was received.'),
  })
  .describe('What was replayed, and the time that it spans.');
export type ReplayedWindowRecord = z.output<typeof replayedWindow>;

export const draftReplay = z.object({
  draft,
  window: replayedWindow,
  current: replayedRule.describe('By the rule that the monitor has for the measurement, if any.'),
  proposed: replayedRule.describe('By the rule of the draft.'),
  difference: z.object({
    added: z.array(replayedIncident).describe('Of the proposed rule alone.'),
    removed: z.array(replayedIncident).describe('Of the current rule alone.'),
    unchanged: count.describe(
      'How many both have: the same measurement, rule and observation that opened them.',
    ),
  }),
});
export type DraftReplayRecord = z.output<typeof draftReplay>;
