// Projects: names are unique in an organization, ignoring case and extra spaces (docs/contract/tenancy.md).
import { z } from 'zod';
import { MAX_FORMER_NAMES } from '../../domain/defaults.ts';
import { integer, MAX_SAFE, text, timestamp } from '../fields/field.ts';

export const projectName = text({ minimum: 1, maximum: 64 });

export const project = z.object({
  projectId: z.string(),
  name: z.string(),
  formerNames: z
    .array(z.string())
    .max(MAX_FORMER_NAMES)
    .describe(
      'The newest first. A namespace that names the project so stays in it until another one has that name.',
    ),
  createdAt: timestamp,
  updatedAt: timestamp,
  version: integer(1, MAX_SAFE).describe('The ETag is `project-<version>`.'),
});
export type Project = z.output<typeof project>;

export const createProjectBody = z.strictObject({ name: projectName });
export const updateProjectBody = z.strictObject({ name: projectName });
