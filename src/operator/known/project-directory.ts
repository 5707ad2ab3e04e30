// Names of projects to their ids, and the making of those that are not there. Ids are kept: a project never goes.
import { randomUUID } from 'node:crypto';
import { type ApiProblem, isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import { projectNameKey } from '../../domain/name-key.ts';
import { Blocked } from '../pass/blocked.ts';
import { ANNOTATION } from '../resources/names.ts';

/** A list that is younger than this is not read again for a name that is not in it. */
const FRESH_MS = 5000;

export class ProjectDirectory {
  readonly #api: RestClient;
  readonly #ids = new Map<string, string>();
  #listedAtMs: number | undefined;
  #listing: Promise<void> | undefined;

  constructor(api: RestClient) {
    this.#api = api;
  }

  /** The id of a project, by name; undefined where there is none. Throws ApiProblem. */
  async find(name: string): Promise<string | undefined> {
    const key = projectNameKey(name);
    const known = this.#ids.get(key);
    if (known !== undefined || this.#isFresh) return known;
    await this.#list();
    return this.#ids.get(key);
  }

  /** As `find`, and makes the project where there is none. Throws ApiProblem; Blocked where the name is refused. */
  async ensure(name: string): Promise<string> {
    const known = await this.find(name);
    if (known !== undefined) return known;
    try {
      // Names are unique, which makes a lost answer harmless: the key need not be the same.
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
      // Another namespace of that project, or another replica, was faster. A list that began before may lack it.
      await this.#listing?.catch(() => undefined);
      await this.#list();
      const made = this.#ids.get(projectNameKey(name));
      if (made === undefined) throw error;
      return made;
    }
  }

  /** The API does not know this id: the next look reads the list again. */
  forget(projectId: string): void {
    for (const [key, id] of this.#ids) if (id === projectId) this.#ids.delete(key);
    this.#listedAtMs = undefined;
  }

  get #isFresh(): boolean {
    return this.#listedAtMs !== undefined && performance.now() - this.#listedAtMs < FRESH_MS;
  }

  /** One list at a time, however many wait for it. */
  #list(): Promise<void> {
    this.#listing ??= this.#listAll().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #listAll(): Promise<void> {
    let cursor: string | undefined;
    do {
      const { body } = await this.#api.call('listProjects', { query: { limit: 200, cursor } });
      for (const { name, projectId } of body.items) this.#ids.set(projectNameKey(name), projectId);
      cursor = body.nextCursor;
    } while (cursor !== undefined);
    this.#listedAtMs = performance.now();
  }
}

/** A namespace's own name always fits: it is the annotation that does not. */
function refusedName(name: string, { fieldErrors, detail }: ApiProblem): Blocked {
  const why = fieldErrors[0]?.message ?? detail;
  const message = `The annotation ${ANNOTATION.project} of the namespace names no project, "${name}": ${why}`;
  return new Blocked('Refused', message, 600_000);
}
