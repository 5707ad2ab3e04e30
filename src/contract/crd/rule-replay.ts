// `status.replay` of a Rule: what its definition would have opened on each Monitor that it matches
// (docs/contract/kubernetes.md, "Rule").
import { z } from 'zod';
import { integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { objectName } from './resource-fields.ts';

/** Of the Monitors that were replayed; the totals are about all. */
export const MAX_REPLAYED_SHOWN = 20;
/** Of the reasons for which Monitors were left out. */
export const MAX_OMISSIONS_SHOWN = 8;

const count = integer(0, MAX_SAFE);

const numbers = {
  observationCount: count.describe('Observations of every kind in the window.'),
  currentIncidents: count.describe('Incidents that the rule of the monitor would have opened.'),
  proposedIncidents: count.describe('Incidents that this definition would have opened.'),
  added: count.describe('Of this definition alone.'),
  removed: count.describe('Of the rule of the monitor alone.'),
  refusedCount: count.describe('Successes that this definition would have refused.'),
};

export const ruleReplayStatus = z
  .object({
    generation: count.describe('The generation of the Rule that was replayed.'),
    request: z
      .string()
      .max(256)
      .optional()
      .describe('The value of the annotation beatkeeper.dev/replay that the replay is for.'),
    since: timestamp.describe('The window begins here, included.'),
    until: timestamp.describe('The window ends here: when the replay began.'),
    finishedAt: timestamp.optional().describe('Absent while the replay goes on.'),
    progress: z.string().describe('How far it has come: `replayed 120 of 10,000`.'),
    matched: count.describe('Monitors that the Rule matches.'),
    replayed: count.describe('Those that were replayed.'),
    omitted: count.describe('Those that could not be replayed; `omissions` says why.'),
    total: z.object(numbers).describe('Of all Monitors that were replayed.'),
    monitors: z
      .array(z.object({ name: objectName.describe('Name of the Monitor.'), ...numbers }))
      .max(MAX_REPLAYED_SHOWN)
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] })
      .describe('Those with the greatest difference, at most 20.'),
    omissions: z
      .array(
        z.object({
          reason: z.string().describe('A code of the API, or a word of the operator.'),
          message: z.string().describe('Why, in a sentence.'),
          count: count.describe('How many Monitors.'),
          monitor: objectName.describe('Name of one of them.'),
        }),
      )
      .max(MAX_OMISSIONS_SHOWN)
      .optional()
      .describe('Why Monitors were not replayed, at most 8 reasons.'),
    cursor: z
      .string()
      .optional()
      .describe('The Monitor that was replayed last: a restarted operator goes on after it.'),
  })
  .describe('Of `rollout: Replay`: what the definition would have opened. Nothing was changed.');
export type RuleReplayStatus = z.output<typeof ruleReplayStatus>;
