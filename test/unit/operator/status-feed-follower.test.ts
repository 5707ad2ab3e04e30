// How the operator goes through the pages of the status feed.
import { Registry } from 'prom-client';
import { afterEach, expect, it } from 'vitest';
import type { RestClient } from '../../../src/client/rest-client.ts';
import { PublishBase } from '../../../src/operator/known/publish-base.ts';
import { SignIn } from '../../../src/operator/known/sign-in.ts';
import { listStatusFeed, StatusFeedFollower } from '../../../src/operator/known/status-feed-follower.ts';
import { createOperatorMetrics } from '../../../src/operator/operator-metrics.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type FakeApi, startFakeApi } from './fake-api.ts';
import { liveStatus } from './resources.ts';

let api: FakeApi | undefined;
afterEach(() => api?.close());
const silent = () => undefined;

const itemOf = (monitorId: string) => ({
  ...{ monitorId, projectId: 'p', projectName: 'P', changeSequence: 1 },
  ...{ lifecycle: 'active', configurationVersion: 1, status: liveStatus({ health: 'up' }) },
});

it('the operator goes on after pages of an old cursor that are short or empty', async () => {
  const pages = [[itemOf('first')], [itemOf('second')], [], [], [itemOf('third')]];
  const client = await serve(pages.map((items, index) => ({ items, hasMore: [1, 2, 3].includes(index) })));
  const { follower, seen } = follow(client);
  await waitFor(() => seen.length === 3, { what: 'the items of all pages' });
  await follower.stop();
  expect(seen).toEqual(['first', 'second', 'third']);
});

const LISTING = [
  { items: [itemOf('first')], hasMore: true },
  { items: [], hasMore: true },
  { items: [itemOf('second')], hasMore: false },
];

it('the operator has read everything when the API says that no more follows, however short the pages were', async () => {
  const { follower, seen } = follow(await serve(LISTING));
  await follower.whenSynced();
  expect(seen).toEqual(['first', 'second']);
  await follower.stop();
});

it('a listing of the feed goes on after a page that is short or empty, while more follows', async () => {
  const client = await serve(LISTING);
  const listed: string[] = [];
  const onItem = ({ monitorId }: { monitorId: string }) => void listed.push(monitorId);
  await listStatusFeed(client, onItem, new AbortController().signal);
  expect(listed).toEqual(['first', 'second']);
});

/** Answers with these pages; the call after the last one is held. */
async function serve(pages: { items: object[]; hasMore: boolean }[]): Promise<RestClient> {
  const forever = Promise.withResolvers<never>();
  let count = 0;
  api = await startFakeApi(async () => {
    const page = pages[count];
    count += 1;
    if (!page) return await forever.promise;
    return { status: 200, body: { ...page, nextCursor: `after-${count}`, publishBaseUrl: 'https://one' } };
  });
  return api.client;
}

function follow(client: RestClient) {
  const follower = new StatusFeedFollower({
    ...{ api: client, signIn: new SignIn(), publishBase: new PublishBase(silent), onRecovered: silent },
    metrics: createOperatorMetrics(new Registry()),
    log: { info: silent, warn: silent, debug: silent, error: silent },
  });
  const seen: string[] = [];
  follower.subscribe({
    itemChanged: ({ monitorId }) => void seen.push(monitorId),
    itemListed: silent,
    listingEnded: silent,
  });
  follower.start();
  return { follower, seen };
}
