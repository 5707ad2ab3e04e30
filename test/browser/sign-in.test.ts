// Sign-in of the dashboard: a token becomes a cookie that no script reads, and that counts for the dashboard alone.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BrowserFixture, openBrowserFixture } from './browser-fixture.ts';

let fixture: BrowserFixture;
beforeAll(async () => {
  fixture = await openBrowserFixture();
});
afterAll(async () => {
  await fixture?.close();
});

describe('sign-in', () => {
  it('a session token signs in, and signing out ends it', async () => {
    const page = await fixture.visit('/monitors');
    await page.getByLabel('Token').fill(fixture.api.tokens.owner);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Monitors' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await page.goto('/monitors');
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await page.context().cookies()).toEqual([]);
  });

  it('the fragment signs in at once, and is cleared', async () => {
    const page = await fixture.open(fixture.api.tokens.read, '/monitors');
    await page.getByRole('heading', { name: 'Monitors' }).waitFor();
    expect(page.url()).not.toContain(fixture.api.tokens.read);
    const seen = await page.evaluate(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state])',
    );
    expect(seen).not.toContain(fixture.api.tokens.read);
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({
      name: 'beatkeeper_session',
      httpOnly: true,
      sameSite: 'Strict',
      secure: false,
    });
  });

  it('a wrong token says so, in the words of the API', async () => {
    const page = await fixture.visit('/sign-in');
    await page.getByLabel('Token').fill('bkc_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').filter({ hasText: 'no valid token' }).waitFor();
  });
});
