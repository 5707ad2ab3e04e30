// Which namespaces may belong to which projects (docs/contract/kubernetes.md, "Shared projects"). By default all to all:
// who may annotate a namespace decides. With a list, its entries decide.
import { projectNameKey } from '../../domain/name-key.ts';
import { Blocked } from '../pass/object.ts';
import { ANNOTATION } from '../resources/names.ts';

export interface SharedProject {
  /** Its name, which is compared as the API compares names. */
  project: string;
  /** Names of namespaces: `*` stands for any characters, `?` for one. */
  namespaces: readonly string[];
}

/** Nothing announces the end of the cause but the object and its namespace themselves. */
const RETRY_MS = 600_000;

export class SharedProjects {
  readonly #globs = new Map<string, string[]>();

  constructor(entries: readonly SharedProject[] = []) {
    for (const { project, namespaces } of entries) {
      const key = projectNameKey(project);
      this.#globs.set(key, [...(this.#globs.get(key) ?? []), ...namespaces]);
    }
  }

  /** A project of the list is for its namespaces alone; any other one for the namespace of its name. */
  allows(namespace: string, project: string): boolean {
    if (this.#globs.size === 0) return true;
    const key = projectNameKey(project);
    const globs = this.#globs.get(key);
    if (globs === undefined) return key === projectNameKey(namespace);
    return globs.some((glob) => matchesGlob(glob, namespace));
  }

  /** Throws Blocked `ProjectNotAllowed`. */
  require(namespace: string, project: string): void {
    if (this.allows(namespace, project)) return;
    const entry = `{project: ${JSON.stringify(project)}, namespaces: [${namespace}]}`;
    const isOwn = projectNameKey(project) === projectNameKey(namespace);
    const way = isOwn ? `Name another project in` : 'Remove';
    const message = `The namespace ${namespace} may not belong to the project "${project}", so its monitors and endpoints there stay as they are. ${way} the annotation ${ANNOTATION.project} of the namespace, or ask who runs Beatkeeper for the entry ${entry} of operator.sharedProjects.`;
    throw new Blocked('ProjectNotAllowed', message, RETRY_MS);
  }
}

/** Of the stars only the last one is tried again: no pattern takes longer than its length times that of the text. */
export function matchesGlob(glob: string, text: string): boolean {
  let [at, position] = [0, 0];
  let star: { at: number; position: number } | undefined;
  while (position < text.length) {
    if (glob[at] === '*') {
      star = { at, position };
      at += 1;
    } else if (glob[at] === '?' || glob[at] === text[position]) {
      at += 1;
      position += 1;
    } else if (star) {
      star.position += 1;
      [at, position] = [star.at + 1, star.position];
    } else return false;
  }
  while (glob[at] === '*') at += 1;
  return at === glob.length;
}
