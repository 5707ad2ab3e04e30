// How the operator goes through the pages of the status feed.
import { Registry } from 'prom-client';
import { afterEach, expect, it } from 'vitest';
import { PublishBase } from '../../../src/operator/known/publish-base.ts';
import { SignIn } from '../../../src/operator/known/sign-in.ts';
import { StatusFeedFollower } from '../../../src/operator/known/status-feed-follower.ts';
import { createOperatorMetrics } from '../../../src/operator/operator-metrics.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type FakeApi, startFakeApi } from './fake-api.ts';
import { liveStatus } from './resources.ts';

let api: FakeApi | undefined;
afterEach(() => api?.close());

const itemOf = (monitorId: string) => ({
  ...{ monitorId, projectId: 'p', projectName: 'P', changeSequence: 1 },
  ...{ lifecycle: 'active', configurationVersion: 1, status: liveStatus({ health: 'up' }) },
});

it('the operator goes on after pages of an old cursor that are short or empty', async () => {
  const pages = [[itemOf('first')], [itemOf('second')], [], [], [itemOf('third')]];
  const forever = Promise.withResolvers<never>();
  let page = 0;
  api = await startFakeApi(async () => {
    const items = pages[page];
    page += 1;
    if (!items) return await forever.promise;
    return { status: 200, body: { items, nextCursor: `after-${page}`, publishBaseUrl: 'https://one' } };
  });
  const silent = () => undefined;
  const follower = new StatusFeedFollower({
    ...{ api: api.client, signIn: new SignIn(), publishBase: new PublishBase(silent), onRecovered: silent },
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
  await waitFor(() => seen.length === 3, { what: 'the items of all pages' });
  await follower.stop();
  expect(seen).toEqual(['first', 'second', 'third']);
});
