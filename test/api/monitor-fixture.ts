// Monitors that tests make over HTTP and beat through their real addresses.
import { randomUUID } from 'node:crypto';
import type { ApiFixture } from '../support/api-fixture.ts';

/** Makes a monitor, whose alerts go where `body` or the organization's default says. */
export async function makeAddressed(api: ApiFixture, body: object = {}) {
  const made = await api.manage.expectSuccess('createMonitor', {
    body: { name: `m-${randomUUID()}`, intervalSeconds: 3600, ...body },
  });
  const { monitorId, publishUrl = '' } = made.body;
  const params = { monitorId };
  const address = `${api.url}${new URL(publishUrl).pathname}`;
  return {
    params,
    /** Where it is beaten, at this api. */
    address,
    /** Sends a beat with measurements: '' for a success, '/fail', '/start', … */
    measure: async (measurements: object, suffix = '') =>
      await fetch(`${address}${suffix}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify({ measurements }),
      }),
    /** Changes the configuration that it has now. */
    patch: async (patch: object) => {
      const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params });
      return await api.manage.expectSuccess('updateMonitor', { params, ifMatch, body: { patch } });
    },
    act: async (action: string, maintenance?: object) => {
      const { etag: ifMatch } = await api.read.expectSuccess('getMonitor', { params });
      const change = { action, maintenance };
      await api.manage.expectSuccess('changeMonitorLifecycle', { params, ifMatch, body: change });
    },
  };
}

export interface BeatenMonitor {
  monitorId: string;
  /** Sends a beat: '' for a success, '/fail', '/start', … */
  beat(suffix?: string): Promise<void>;
  /** Opens a `reported_failure` and returns the incident's id. */
  fail(): Promise<string>;
}

/** Makes a monitor whose alerts go to a closed port: these tests send nothing. */
export async function makeMonitor(api: ApiFixture, body: object = {}): Promise<BeatenMonitor> {
  const callback = { kind: 'inline', url: 'http://127.0.0.1:9/' };
  const { params, address } = await makeAddressed(api, { callback, ...body });
  const beat = async (suffix = '') => {
    const answer = await fetch(`${address}${suffix}`, { method: 'POST' });
    if (!answer.ok) throw new Error(`The beat was refused: ${answer.status} ${await answer.text()}`);
  };
  return {
    ...params,
    beat,
    fail: async () => {
      await beat('/fail');
      const query = { state: 'open' };
      const { body: page } = await api.read.expectSuccess('listMonitorIncidents', {
        params,
        query,
      });
      const found = page.items.find((incident) => incident.kind === 'reported_failure');
      if (!found) throw new Error('No incident opened.');
      return found.incidentId;
    },
  };
}
