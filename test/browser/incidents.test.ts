// The story of an incident in the dashboard.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeMonitor } from '../api/monitor-fixture.ts';
import { type BrowserFixture, openBrowserFixture } from './browser-fixture.ts';

let fixture: BrowserFixture;
beforeAll(async () => {
  fixture = await openBrowserFixture();
});
afterAll(async () => {
  await fixture?.close();
});

describe('an incident', () => {
  it('is seen without a reload, and acknowledged', async () => {
    const monitor = await makeMonitor(fixture.api, { name: 'nightly backup' });
    const page = await fixture.open(fixture.api.tokens.member);
    await page.getByText('Nothing is wrong.').waitFor();
    const incidentId = await monitor.fail();
    const row = page.getByRole('row').filter({ hasText: 'nightly backup' });
    await row.getByRole('button', { name: 'Acknowledge' }).click();
    await row.getByText('acknowledged').waitFor();
    const { body } = await fixture.api.read.expectSuccess('getIncident', { params: { incidentId } });
    expect(body.acknowledgedBy).toMatchObject({ kind: 'session' });
    await row.getByRole('link').last().click();
    await page.getByRole('heading', { level: 1 }).filter({ hasText: 'failure' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/incidents/${incidentId}`);
  });
});
