// An api with two projects of an organization, and one of another, that have something to export; how its exports are called.
import { newUuid } from '../../src/domain/id.ts';
import { insertProject } from '../../src/store/tenancy/projects.ts';
import { type ApiFixture, type ApiFixtureOptions, openApiFixture } from '../support/api-fixture.ts';
import type { ExportCall } from '../support/export-reader.ts';
import { HOUR_MS, insertBeats } from '../support/past-beats.ts';
import { type SeedMonitor, type SeedProject, seedMonitor } from '../support/seed.ts';

export interface ExportFixture {
  api: ApiFixture;
  /** Of the project `second` of the organization. */
  second: SeedMonitor;
  /** Of another organization. */
  foreign: SeedMonitor;
  asCredential(more?: Partial<ExportCall>): ExportCall;
  asOwner(more?: Partial<ExportCall>): ExportCall;
}

export async function openExportFixture(options?: ApiFixtureOptions): Promise<ExportFixture> {
  const api = await openApiFixture(options);
  const second = await seedMonitor(api.pool, await addProject(api, 'second'));
  const foreign = await seedMonitor(api.pool, api.other);
  for (const one of [second, foreign]) await insertBeats(api.pool, one, [{ atMs: Date.now() - HOUR_MS }]);
  const asCredential = (more: Partial<ExportCall> = {}): ExportCall => ({
    url: api.url,
    token: api.tokens.manage,
    ...more,
  });
  return {
    ...{ api, second, foreign, asCredential },
    asOwner: (more = {}) => asCredential({ token: api.tokens.owner, ...more }),
  };
}

/** One more project of the organization. */
export async function addProject(api: ApiFixture, name: string): Promise<SeedProject> {
  const { organizationId } = api;
  const { projectId } = await insertProject(api.pool, { projectId: newUuid(), organizationId, name });
  return { organizationId, projectId };
}
