// What an operator sees of the causes of missed beats (docs/contract/incidents.md, "Causes that the operator sees").
import { z } from 'zod';
import { OPERATOR_CAUSES } from '../../domain/operator-cause.ts';
import { identifier, text } from '../fields/field.ts';

export const MAX_CAUSES = 1_000;
export const MAX_CAUSE_MONITORS = 10_000;
/** Each body within the bounds has less, with texts of 4 bytes a character and the longest ids. */
export const MAX_CAUSES_BYTES = 4 * 1_048_576;

export const operatorCause = z.enum(OPERATOR_CAUSES);

const OBJECT =
  'The name of the node or of the namespace, the image as the pod names it, or `<namespace>/<quota>`.';

const projectId = z.guid('Must be the id of a project, a UUID.');

const concernedMonitor = z.strictObject({ projectId, monitorId: identifier });

const seenCause = z.strictObject({
  cause: operatorCause,
  object: text({ minimum: 1, maximum: 512 }).describe(OBJECT),
  monitors: z
    .array(concernedMonitor)
    .max(MAX_CAUSE_MONITORS)
    .describe('Those that it concerns: at most 10,000 in all causes together, each once.'),
});

export const setOperatorCausesBody = z.strictObject({
  causes: z
    .array(seenCause)
    .max(MAX_CAUSES)
    .superRefine((causes, context) => {
      const known = new Set<string>();
      const refuse = (path: (string | number)[], code: string, message: string) =>
        context.addIssue({ code: 'custom', path, message, params: { code } });
      for (const [index, { monitors }] of causes.entries()) {
        for (const [place, { projectId: project, monitorId }] of monitors.entries()) {
          const key = `${project.toLowerCase()} ${monitorId}`;
          const path = [index, 'monitors', place];
          if (known.has(key))
            return refuse(path, 'not_unique', 'This monitor is named before: name each once.');
          known.add(key);
          if (known.size > MAX_CAUSE_MONITORS)
            return refuse(path, 'too_big', 'Name at most 10,000 monitors in all causes together.');
        }
      }
    })
    .describe('All that the operator sees now. Two of the same cause and object are one.'),
});
