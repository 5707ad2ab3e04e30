// The dashboard in the system's Chromium, on the role `api` with a database of its own. Each page is a person of its own.
import { type Browser, chromium, type Page } from 'playwright-core';
import { findOnPath } from '../../src/dev/processes/executable.ts';
import { type ApiFixture, type ApiFixtureOptions, openApiFixture } from '../support/api-fixture.ts';

export interface BrowserFixture {
  api: ApiFixture;
  /** A new browser context, signed in with the token, on the path. */
  open(token: string, path?: string): Promise<Page>;
  /** A new browser context, not signed in. */
  visit(path: string): Promise<Page>;
  close(): Promise<void>;
}

/** Call `close` in `afterAll`. */
export async function openBrowserFixture(options: ApiFixtureOptions = {}): Promise<BrowserFixture> {
  const executablePath =
    process.env.CHROMIUM ?? (await findOnPath('chromium')) ?? (await findOnPath('google-chrome'));
  if (executablePath === undefined)
    throw new Error('There is no Chromium: install it, such as apt-get install chromium.');
  const api = await openApiFixture({
    ...options,
    // Loopback, as the address of the browser is: the cookie follows from it.
    config: { publicUrl: 'http://127.0.0.1:8080', ...options.config },
  });
  const browser: Browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  const visit = async (path: string) => {
    const context = await browser.newContext({ baseURL: api.url });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    await page.goto(path);
    return page;
  };
  return {
    api,
    visit,
    async open(token, path = '/') {
      const page = await visit(`/sign-in?${new URLSearchParams({ to: path })}#token=${token}`);
      await page.waitForURL((url) => url.pathname !== '/sign-in');
      return page;
    },
    async close() {
      await browser.close();
      await api.close();
    },
  };
}
