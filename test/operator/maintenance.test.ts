// Maintenance schedules of a Monitor and of its namespace, from YAML to the API, on a real API server.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findCondition } from '../../src/kube/conditions.ts';
import { NAMESPACES } from '../../src/operator/resources/core-resources.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

let fixture: OperatorFixture;

beforeAll(async () => {
  fixture = await openOperatorFixture();
  // It reads the annotations of namespaces where it watches all of them.
  await fixture.startOperator({ watchNamespaces: [] });
});
afterAll(() => fixture?.close());

const nightly = { cron: '0 2 * * *', timeZone: 'Europe/Berlin', durationSeconds: 3600, reason: 'Backup' };
const weekly = { cron: '0 4 * * 6', timeZone: 'UTC', durationSeconds: 7200 };
const disabled = { callback: { kind: 'disabled' } };

async function annotate(text: string | null): Promise<void> {
  const annotations = { 'beatkeeper.dev/maintenance': text };
  await fixture.kube.client.mergePatch(
    NAMESPACES,
    { name: fixture.namespace },
    { metadata: { annotations } },
  );
}

async function messageOf(name: string, type: string): Promise<string | undefined> {
  return findCondition((await fixture.monitor(name)).status?.conditions, type)?.message;
}

async function schedulesBecome(name: string, expected: object[] | undefined): Promise<void> {
  const monitorId = (await fixture.monitor(name)).status?.monitorId ?? '';
  const read = async () =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body.maintenanceSchedules;
  await waitFor(async () => isDeepStrictEqual(await read(), expected), {
    what: `${name} has the schedules`,
  });
}

describe('maintenance schedules', () => {
  it('of a Monitor and of its namespace hold together, and each goes with its text', async () => {
    await fixture.createMonitor('job', { maintenanceSchedules: [nightly], ...disabled });
    await fixture.createMonitor('plain', disabled);
    await fixture.monitorBecomes('job', 'Ready', 'True');
    await fixture.monitorBecomes('plain', 'Ready', 'True');
    await schedulesBecome('job', [nightly]);
    await annotate(JSON.stringify([weekly]));
    await schedulesBecome('job', [nightly, weekly]);
    await schedulesBecome('plain', [weekly]);
    await fixture.eventAppears('plain', 'Updated');

    await annotate('every night');
    const { note, type } = await fixture.eventAppears('plain', 'Refused');
    expect(type).toBe('Warning');
    expect(note).toMatch(
      /^The annotation beatkeeper.dev\/maintenance of the namespace cannot be read: it is not JSON\./,
    );
    await fixture.eventAppears('job', 'Refused');
    await schedulesBecome('plain', [weekly]);
    await fixture.monitorBecomes('plain', 'Synced', 'True');
    await fixture.monitorBecomes('plain', 'MaintenanceApplied', 'False', 'Refused');
    await fixture.createMonitor('new', { maintenanceSchedules: [nightly], ...disabled });
    await fixture.monitorBecomes('new', 'Ready', 'True');
    await schedulesBecome('new', [nightly]);

    await annotate(null);
    await schedulesBecome('plain', undefined);
    await waitFor(async () => (await messageOf('plain', 'MaintenanceApplied')) === undefined, {
      what: 'the condition goes',
    });
    await schedulesBecome('job', [nightly]);
    await fixture.kubectl([
      'patch',
      'monitor',
      'job',
      '--type=merge',
      '-p',
      '{"spec":{"maintenanceSchedules":null}}',
    ]);
    await schedulesBecome('job', undefined);
  });

  it('that run are why the Monitor is healthy', async () => {
    const at = new Date(Date.now() - 600_000);
    const cron = `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
    await fixture.createMonitor('asleep', {
      maintenanceSchedules: [{ cron, durationSeconds: 3600, reason: 'Backup' }],
      ...disabled,
    });
    const { status } = await fixture.monitorBecomes('asleep', 'Healthy', 'True', 'Maintenance');
    expect(status?.health).toBe('maintenance');
    const because = /^In maintenance until [\d :-]+ UTC \(Backup\): nothing opens before\.$/;
    await waitFor(async () => because.test((await messageOf('asleep', 'Healthy')) ?? ''), {
      what: 'Healthy says why',
    });
  });

  it.each([
    ['too long', { ...weekly, durationSeconds: 604_801 }, 'durationSeconds'],
    ['without a length', { cron: '0 2 * * *' }, 'durationSeconds'],
    ['of no schedule', { ...weekly, cron: 'nightly' }, 'Must be a cron expression with five fields'],
    [
      'with a field that is not there',
      { ...weekly, note: 'x' },
      'unknown field "spec.maintenanceSchedules[0].note"',
    ],
  ])('%s are refused by the API server', async (_, schedule, why) => {
    const manifest = {
      apiVersion: 'beatkeeper.dev/v1alpha1',
      kind: 'Monitor',
      metadata: { name: 'refused' },
      spec: { maintenanceSchedules: [schedule] },
    };
    const { code, stderr } = await fixture.kubectl(['apply', '-f', '-'], JSON.stringify(manifest));
    expect([code, stderr]).toEqual([1, expect.stringContaining(why)]);
  });

  it('that would never end are refused by the API, with the way out', async () => {
    const endless = { cron: '0 0 * * *', durationSeconds: 86_400 };
    await fixture.createMonitor('endless', { maintenanceSchedules: [endless], ...disabled });
    await fixture.monitorBecomes('endless', 'Synced', 'False', 'Refused');
    expect(await messageOf('endless', 'Synced')).toContain(
      'Of this schedule more than 16 windows follow each other without a break',
    );
  });
});
