// The operator's view of orphans on a real api: the feed is listed when a test says so, and the test says what the caches hold.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { RestClient } from '../../src/client/rest-client.ts';
import type { KubeLog } from '../../src/kube/kube-log.ts';
import { listStatusFeed } from '../../src/operator/known/status-feed-follower.ts';
import { createOperatorMetrics } from '../../src/operator/operator-metrics.ts';
import { type Declared, OrphanWatch, type Sight } from '../../src/operator/orphans/orphan-watch.ts';
import { newOrigin, originCalls } from '../api/origin-fixture.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

export interface OrphanFixture {
  api: ApiFixture;
  proxy: RefusingProxy;
  client: RestClient;
  watch: OrphanWatch;
  /** What was logged as a warning. */
  warnings: string[];
  log: KubeLog;
  signal: AbortSignal;
  calls: ReturnType<typeof originCalls>;
  /** By the object's name. Default: `there`. */
  sights: Map<string, Sight>;
  /** Called each time when the caches are asked. */
  onLook: { call: (declared: Declared) => void };
  lookFor(declared: Declared): Sight;
  /** A monitor with an origin. */
  make(): Promise<{ monitorId: string; name: string }>;
  list(): Promise<void>;
  orphanedAt(monitorId: string): Promise<string | undefined>;
  close(): Promise<void>;
}

export async function openOrphanFixture(): Promise<OrphanFixture> {
  const api = await openApiFixture();
  const proxy = await RefusingProxy.start(api.url);
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-orphans-'));
  const tokenFile = join(folder, 'token');
  await writeFile(tokenFile, `${api.tokens.operator}\n`);
  const client = new RestClient({ apiUrl: proxy.url, tokenFile, timeoutMs: 30_000 });
  const { signal } = new AbortController();
  const calls = originCalls(api);
  const sights = new Map<string, Sight>();
  const onLook: OrphanFixture['onLook'] = { call: () => undefined };
  const warnings: string[] = [];
  const log: KubeLog = {
    debug: () => undefined,
    info: () => undefined,
    warn: (_facts, message) => void warnings.push(message ?? ''),
    error: () => undefined,
  };
  const lookFor = (declared: Declared) => {
    onLook.call(declared);
    return sights.get(declared.name) ?? 'there';
  };
  const metrics = createOperatorMetrics(new Registry());
  const watch = new OrphanWatch({ api: client, log, metrics, lookFor });
  return {
    ...{ api, proxy, client, watch, warnings, log, signal, calls, sights, onLook, lookFor },
    async make() {
      const origin = newOrigin();
      const { monitorId } = await calls.create({ origin });
      return { monitorId, name: origin.name };
    },
    async list() {
      const listed = new Set<string>();
      await listStatusFeed(
        client,
        (item) => {
          listed.add(`${item.projectId}/${item.monitorId}`);
          watch.itemListed(item);
        },
        signal,
      );
      watch.listingEnded(listed);
    },
    orphanedAt: async (monitorId) => (await calls.read(monitorId)).origin?.orphanedAt,
    async close() {
      await client.close();
      await proxy.close();
      await api.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
