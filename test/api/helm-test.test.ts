// The chart's `helm test` says why nobody can sign in: its script, on a real api whose issuer is another one.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openApiFixture } from '../support/api-fixture.ts';
import { runProgram } from '../support/run-program.ts';

const SCRIPT = join(import.meta.dirname, '../../charts/beatkeeper/files/helm-test.js');

it('helm test fails at once when api refuses its token, and says whose token that is', async () => {
  const api = await openApiFixture();
  const folder = await mkdtemp(join(tmpdir(), 'helm-test-'));
  try {
    const file = join(folder, 'token');
    const issuer = 'https://elsewhere.example.com';
    await writeFile(file, await api.issuer.sign({ issuer, subject: 'system:serviceaccount:a:test' }));
    const env = { PATH: process.env.PATH, API_URL: api.url, BEATKEEPER_TOKEN_FILE: file };
    const { code, stderr } = await runProgram(process.execPath, [SCRIPT], { env });
    expect(code).not.toBe(0);
    expect(stderr).toContain(`api refuses a token of system:serviceaccount:a:test by the issuer ${issuer}`);
    expect(stderr).toContain('auth.clusterIssuer');
  } finally {
    await api.close();
    await rm(folder, { recursive: true, force: true });
  }
});
