// The monitors that a monitor depends on (docs/contract/incidents.md, "Dependencies").
import { z } from 'zod';
import { identifier } from '../fields/field.ts';

export const MAX_DEPENDENCIES = 16;

const TEXT =
  'Monitors of the project and the jurisdiction: while one of them is down, incidents of this one send no alert.';

export const dependsOn = z
  .array(identifier)
  .max(MAX_DEPENDENCIES)
  .superRefine((ids, context) => {
    const index = ids.findIndex((id, place) => ids.indexOf(id) !== place);
    if (index < 0) return;
    const message = 'This monitor is named before: name each once.';
    context.addIssue({ code: 'custom', path: [index], message, params: { code: 'not_unique' } });
  })
  .meta({ uniqueItems: true })
  .describe(TEXT);

export const dependsOnRecord = z.array(identifier).describe(TEXT);
