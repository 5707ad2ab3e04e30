// What a suite of Python programs works with: the programs, an api, and a folder of its own.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiFixture, openApiFixture } from './api-fixture.ts';
import { findPythonTools } from './python-tools.ts';

export interface PythonFixture {
  bin: string;
  api: ApiFixture;
  folder: string;
  close(): Promise<void>;
}

/** Why the programs are missing, or everything. */
export async function openPythonFixture(
  options: Parameters<typeof openApiFixture>[0] = {},
): Promise<PythonFixture | { missing: string }> {
  const { bin, missing } = await findPythonTools();
  if (bin === undefined) return { missing };
  const api = await openApiFixture(options);
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-python-'));
  const close = async () => {
    await api.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { bin, api, folder, close };
}
