// Which namespaces may belong to which project: BEATKEEPER_SHARED_PROJECTS, a JSON array.
import { z } from 'zod';
import { json } from './variable.ts';

const glob = z
  .string()
  .regex(/^[a-z0-9*?-]{1,63}$/, 'must be the name of a namespace, in which * and ? may stand for others');

const entry = z.strictObject({
  project: z.string().trim().min(1).max(64),
  namespaces: z.array(glob),
});

export const sharedProjects = json('must be a JSON array of {project, namespaces}', z.array(entry));
