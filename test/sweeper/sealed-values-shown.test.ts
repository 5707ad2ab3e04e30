// What metrics and the log say of the keys that values are sealed with.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { watchSealedValues } from '../../src/sweeper/upkeep/sweep-sealed-values.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { BOTH, makeJobDeps, NEW, sealAgain, seedSealedEndpoints } from './sealed-values-fixture.ts';

let fixture: ProjectFixture;
beforeEach(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

describe('the count of sealed values', () => {
  async function countsShown(secrets: SecretBox): Promise<Record<string, number>> {
    const deps = makeJobDeps(fixture, secrets);
    await watchSealedValues(deps);
    const { values } = await deps.metrics.sealedValues.get();
    return Object.fromEntries(
      values.map(({ labels, value }) => [`${labels.key_id} ${labels.kind} ${labels.configured}`, value]),
    );
  }

  it('the metric has every configured key, with 0 where it has sealed nothing', async () => {
    await seedSealedEndpoints(fixture, 3);
    expect(await countsShown(BOTH)).toEqual({
      'k2 url yes': 0,
      'k2 signing-secret yes': 0,
      'k2 answer yes': 0,
      'k2 relay-topic yes': 0,
      'test relay-topic yes': 0,
      'test url yes': 3,
      'test signing-secret yes': 3,
      'test answer yes': 3,
    });
    await sealAgain(makeJobDeps(fixture));
    expect(await countsShown(BOTH)).toMatchObject({ 'k2 url yes': 3, 'test url yes': 0 });
  });

  it('a key that is not configured and has sealed values shows as such', async () => {
    await seedSealedEndpoints(fixture, 2);
    const shown = await countsShown(new SecretBox([NEW]));
    expect(shown).toMatchObject({
      'test url no': 2,
      'test signing-secret no': 2,
      'test answer no': 2,
      'k2 url yes': 0,
    });
  });
});

describe('the log lines about a missing key', () => {
  async function linesWith(secrets: SecretBox) {
    const lines: string[] = [];
    const log = createLog(
      { role: 'test', level: 'info' },
      { write: (line: string) => void lines.push(line) },
    );
    await watchSealedValues({ ...makeJobDeps(fixture, secrets), log });
    return lines.map((line) => JSON.parse(line) as { level: string; kind: string; msg: string });
  }

  it('a missing key that has only sealed stored answers makes no line that says that alerts wait', async () => {
    await seedSealedEndpoints(fixture, 2);
    await fixture.pool.query('delete from callback_endpoints');
    await fixture.pool.query('delete from signing_secrets');
    expect(await linesWith(new SecretBox([NEW]))).toEqual([
      expect.objectContaining({
        level: 'warn',
        kind: 'answer',
        count: 2,
        msg: expect.not.stringContaining('alerts'),
      }),
    ]);
  });

  it('a missing key of addresses and signing secrets is an error: alerts wait', async () => {
    await seedSealedEndpoints(fixture, 2);
    const errors = (await linesWith(new SecretBox([NEW]))).filter(({ level }) => level === 'error');
    expect(errors.map(({ kind }) => kind)).toEqual(['url', 'signing-secret']);
    for (const { msg } of errors) expect(msg).toContain('alerts to these endpoints wait');
  });
});
