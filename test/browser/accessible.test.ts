// Every page in both themes, narrow and at twice the size of text: axe finds nothing.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeMonitor } from '../api/monitor-fixture.ts';
import { type BrowserFixture, openBrowserFixture } from './browser-fixture.ts';

let fixture: BrowserFixture;
let paths: Record<string, string>;
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

beforeAll(async () => {
  fixture = await openBrowserFixture();
  const monitor = await makeMonitor(fixture.api, { name: 'nightly backup', labels: { team: 'storage' } });
  const incidentId = await monitor.fail();
  paths = { Now: '/', Monitors: '/monitors', incident: `/incidents/${incidentId}` };
});
afterAll(async () => {
  await fixture?.close();
});

const VIEWS = [
  { theme: 'light', width: 1_280 },
  { theme: 'dark', width: 1_280 },
  { theme: 'light', width: 320 },
  // 200 % zoom: half the width in pixels of CSS.
  { theme: 'dark', width: 640 },
] as const;

async function findFaults(page: Page): Promise<string[]> {
  // By the devtools: the policy of the page lets no script in.
  await page.evaluate(axe);
  const { violations } = (await page.evaluate('axe.run()')) as AxeResults;
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}

describe.each(VIEWS)('at $width px in the $theme theme', ({ theme, width }) => {
  it('axe finds nothing on any page, and no page is wider than the window', async () => {
    const page = await fixture.open(fixture.api.tokens.owner);
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 800 });
    for (const path of Object.values(paths)) {
      await page.goto(path);
      await page.getByText('nightly backup').first().waitFor();
      expect(await findFaults(page), path).toEqual([]);
      expect(
        await page.evaluate('document.documentElement.scrollWidth - innerWidth'),
        path,
      ).toBeLessThanOrEqual(0);
    }
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await findFaults(page), '/sign-in').toEqual([]);
  });
});
