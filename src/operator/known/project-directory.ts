// The project of an object: its name by the namespace, and its id by the API. A project is never deleted. One that is
// renamed keeps its namespaces: a former name stands for the name now, until another project has it.
import { randomUUID } from 'node:crypto';
import { type ApiProblem, isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import type { Project } from '../../contract/resources/project.ts';
import { projectNameKey } from '../../domain/name-key.ts';
import type { KubeClient } from '../../kube/kube-client.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { ObjectStore } from '../../kube/object-store.ts';
import { Blocked } from '../pass/object.ts';

import { NAMESPACES } from '../resources/core-resources.ts';
import { ANNOTATION } from '../resources/names.ts';
import type { SharedProjects } from './shared-projects.ts';

/** A list younger than this is not read again for a name that it lacks. */
const FRESH_MS = 5000;

export class ProjectDirectory {
  readonly #api: RestClient;
  readonly #ids = new Map<string, string>();
  /** Former names, and the names now. */
  #renamed: ReadonlyMap<string, string> = new Map();
  #listedAtMs: number | undefined;
  #listing: Promise<void> | undefined;

  constructor(api: RestClient) {
    this.#api = api;
  }

  /** The name now of the project that has or had this one, as far as is known. */
  currentName(name: string): string {
    return this.#renamed.get(projectNameKey(name)) ?? name;
  }

  /** Like `currentName`, but asks the API about an unknown name. Throws ApiProblem. */
  async readCurrentName(name: string): Promise<string> {
    await this.find(name);
    return this.currentName(name);
  }

  /** Like `find`, as far as is known. */
  knownId(name: string): string | undefined {
    return this.#ids.get(projectNameKey(this.currentName(name)));
  }

  /** Of all projects, as last read. */
  get knownIds(): ReadonlySet<string> {
    return new Set(this.#ids.values());
  }

  /** Reads again which projects there are and what they are called. Throws ApiProblem. */
  async refresh(): Promise<void> {
    if (!this.#isFresh) await this.#list();
  }

  /** The id of a project, by its name or a former one; undefined if there is none. Throws ApiProblem. */
  async find(name: string): Promise<string | undefined> {
    const known = this.knownId(name);
    if (known !== undefined || this.#isFresh) return known;
    await this.#list();
    return this.knownId(name);
  }

  /** Like `find`, but creates a missing project. Throws ApiProblem; Blocked if the API refuses the name. */
  async ensure(name: string): Promise<string> {
    const known = await this.find(name);
    if (known !== undefined) return known;
    try {
      // Names are unique, so a repeated call is harmless and needs no stable key.
      const { body } = await this.#api.call('createProject', {
        body: { name },
        idempotencyKey: randomUUID(),
      });
      this.#ids.set(projectNameKey(name), body.projectId);
      return body.projectId;
    } catch (error) {
      if (!isProblem(error, 'permanent')) throw error;
      if (error.status === 400) throw refusedName(name, error);
      if (error.status !== 409) throw error;
      // Another namespace or another replica created it first. A list that began before that may lack it.
      await this.#listing?.catch(() => undefined);
      await this.#list();
      const created = this.knownId(name);
      if (created === undefined) throw error;
      return created;
    }
  }

  /** The API does not know this id: the next `find` reads the list again. */
  forget(projectId: string): void {
    for (const [key, id] of this.#ids) if (id === projectId) this.#ids.delete(key);
    this.#listedAtMs = undefined;
  }

  get #isFresh(): boolean {
    return this.#listedAtMs !== undefined && performance.now() - this.#listedAtMs < FRESH_MS;
  }

  /** One list at a time, shared by all callers. */
  #list(): Promise<void> {
    this.#listing ??= this.#listAll().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #listAll(): Promise<void> {
    const projects: Project[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await this.#api.call('listProjects', { query: { limit: 200, cursor } });
      projects.push(...body.items);
      cursor = body.nextCursor;
    } while (cursor !== undefined);
    const renamed = new Map<string, string>();
    // Of those that had a name once, the one that was changed last has it.
    for (const { name, formerNames } of projects.toSorted(compareUpdate))
      for (const former of formerNames) renamed.set(projectNameKey(former), name);
    for (const { projectId, name } of projects) {
      renamed.delete(projectNameKey(name));
      this.#ids.set(projectNameKey(name), projectId);
    }
    this.#renamed = renamed;
    this.#listedAtMs = performance.now();
  }
}

function compareUpdate(a: Project, b: Project): number {
  return Date.parse(a.updatedAt) - Date.parse(b.updatedAt);
}

/** The name of a namespace is always valid, so the annotation must be wrong. */
function refusedName(name: string, { fieldErrors, detail }: ApiProblem): Blocked {
  const why = fieldErrors[0]?.message ?? detail;
  const message = `The annotation ${ANNOTATION.project} of the namespace holds no valid name of a project, "${name}": ${why}`;
  return new Blocked('Refused', message, 600_000);
}

/** The part of the context that names projects. */
export interface Namespaces {
  readonly namespaces: ObjectStore<KubeObject>;
  readonly sharedProjects: SharedProjects;
  readonly projects: Pick<ProjectDirectory, 'currentName'>;
}

/** The part of the context that can also read a namespace. */
interface ReadableNamespaces extends Namespaces {
  readonly kube: KubeClient;
  readonly projects: ProjectDirectory;
  readonly settings: { readonly isClusterWide: boolean };
}

/** The project name of an object by the caches: the annotation of its namespace, else the namespace's name. */
export function projectNameOf(
  { namespaces, projects }: Pick<Namespaces, 'namespaces' | 'projects'>,
  object: KubeObject,
): string {
  const { namespace = '' } = object.metadata;
  return projects.currentName(projectNameIn(namespaces.get(namespace)) || namespace);
}

/** Undefined if the namespace may not belong to that project: then the object claims nothing in it. */
export function findProjectName(context: Namespaces, object: KubeObject): string | undefined {
  const name = projectNameOf(context, object);
  return context.sharedProjects.allows(object.metadata.namespace ?? '', name) ? name : undefined;
}

/**
 * The project name of an object, also where the cache lacks its namespace: nothing may be created in a project other than
 * the annotated one. The namespace may not be allowed to belong to it. Throws KubeError and ApiProblem.
 */
export async function readProjectName(context: ReadableNamespaces, object: KubeObject): Promise<string> {
  const { namespace = '' } = object.metadata;
  const { namespaces, kube, projects, settings } = context;
  const cached = namespaces.get(namespace);
  const isKnown = !settings.isClusterWide || cached !== undefined;
  const annotated = projectNameIn(isKnown ? cached : await kube.find(NAMESPACES, { name: namespace }));
  return await projects.readCurrentName(annotated || namespace);
}

/** The project name in the annotation of a namespace. */
export function projectNameIn(namespace: KubeObject | undefined): string | undefined {
  return namespace?.metadata.annotations?.[ANNOTATION.project]?.trim();
}
