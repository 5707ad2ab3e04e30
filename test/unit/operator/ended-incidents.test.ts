// How the incidents ended that a status lists and the API does not: a status may list anything.
import { afterEach, describe, expect, it } from 'vitest';
import { endsOf } from '../../../src/operator/kinds/monitor/ended-incidents.ts';
import { type FakeAnswer, type FakeApi, startFakeApi } from './fake-api.ts';

describe('the end of an incident', () => {
  let api: FakeApi;
  afterEach(() => api.close());

  const incidents = (ids: readonly string[]) =>
    ids.map((incidentId) => ({
      ...({ incidentId, kind: 'missed_deadline', state: 'open', severity: 'critical' } as const),
      openedAt: '2026-01-31T09:00:00Z',
    }));
  const ends = async (ids: readonly string[], answer: (id: string) => FakeAnswer) => {
    api = await startFakeApi((request) => answer(request.split('/').at(-1) ?? ''));
    const ended = { ref: { id: 'mine', projectId: 'p' }, incidents: incidents(ids) };
    return await endsOf(api.client, ended, new AbortController().signal);
  };
  const endedAt = '2026-01-31T09:10:00Z';
  const found = (state: string, monitorId = 'mine') => ({
    ...{ status: 200, body: { state, monitorId, recoveredAt: endedAt, resolvedAt: endedAt } },
  });
  const problem = (status: number, code: string) => ({
    ...{ status, body: { title: 't', status, code, detail: 'Say why.', retryable: status >= 500 } },
  });

  it('is as the API says, and nothing is said of incidents of other monitors', async () => {
    const answers: Record<string, FakeAnswer> = {
      recovered: found('recovered'),
      resolved: found('resolved'),
      gone: problem(404, 'service.not_found'),
      theirs: found('recovered', 'theirs'),
    };
    const said = await ends(Object.keys(answers), (id) => answers[id] ?? found('open'));
    const was = 'No beat came in time (missed_deadline, critical): was open from 2026-01-31T09:00:00Z';
    expect(said).toEqual([
      { reason: 'IncidentRecovered', note: `${was} to ${endedAt}, incident recovered.` },
      { reason: 'IncidentResolved', note: `${was} to ${endedAt}, incident resolved.` },
      { reason: 'IncidentResolved', note: `${was}, incident gone.` },
    ]);
  });

  it('of thousands in the status it asks about 25', async () => {
    const ids = Array.from({ length: 3000 }, (_, i) => `inc_${i}`);
    expect(await ends(ids, () => found('recovered'))).toHaveLength(25);
    expect(api.requests).toHaveLength(25);
  });

  it.each([
    [503, 'service.temporarily_unavailable'],
    [409, 'service.conflict'],
  ])('an API that answers %i is asked once, and its answer keeps no status', async (status, code) => {
    const said = await ends(['a', 'b'], () => problem(status, code));
    expect(api.requests).toHaveLength(1);
    expect(said.map(({ reason, note }) => [reason, /did not say how it ended/.test(note)])).toEqual([
      ['IncidentResolved', true],
      ['IncidentResolved', true],
    ]);
  });
});
