// Values that the schemas of fields and bodies accept and refuse (docs/contract/calls.md, docs/contract/rules.md).
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import {
  callbackUrl,
  identifier,
  labels,
  measurementKey,
  note,
  timestamp,
} from '../../src/contract/fields/field.ts';
import { idempotencyKey } from '../../src/contract/fields/headers.ts';
import { cursor } from '../../src/contract/fields/paging.ts';
import { bindingInput, setBindingBody } from '../../src/contract/resources/binding.ts';
import {
  createCallbackBody,
  rotateSecretBody,
  updateCallbackBody,
} from '../../src/contract/resources/callback.ts';
import { createCredentialBody } from '../../src/contract/resources/credential.ts';
import { lifecycleBody } from '../../src/contract/resources/lifecycle.ts';
import {
  measurementRuleFaults,
  measurementRuleFields,
} from '../../src/contract/resources/measurement-rule.ts';
import { createMonitorBody, PUBLISHED_LIMITS } from '../../src/contract/resources/monitor.ts';
import { projectName } from '../../src/contract/resources/project.ts';
import { cron, timeZone } from '../../src/contract/resources/schedule.ts';

const measurementRule = measurementRuleFields.refine((rule) => measurementRuleFaults(rule).length === 0);
const createMonitor = createMonitorBody(PUBLISHED_LIMITS);
const named = (fields: object) => ({ name: 'a', ...fields });
const window = { startsAt: '2026-01-01T00:00:00Z', endsAt: '2026-01-31T00:00:00Z' };
const webhook = { alias: 'ops', url: 'https://example.com/a' };
const sustained = {
  version: 1,
  transientConsequence: 'none',
  sustainedConsequence: 'critical',
  sustainedCriterion: { kind: 'elapsed_time', seconds: 604_800 },
};

const TABLE: [name: string, schema: z.ZodType, good: unknown[], bad: unknown[]][] = [
  [
    'identifier',
    identifier,
    ['a', '0_-', 'a'.repeat(128)],
    ['', '_a', '-a', 'a b', 'é', 'a'.repeat(129), 1, null],
  ],
  [
    'measurement key',
    measurementKey,
    ['a', 'a_1', 'a'.repeat(64)],
    ['', 'A', '1a', '_a', 'a-b', 'a'.repeat(65)],
  ],
  ['idempotency key', idempotencyKey, ['a.~:/+-_', '0'.repeat(255)], ['', '.a', 'a b', 'a'.repeat(256), 'é']],
  ['cursor', cursor, ['a.~:/+-_', '0'.repeat(512)], ['', '-a', 'a=', 'a'.repeat(513)]],
  [
    'timestamp',
    timestamp,
    [
      '2026-01-31T09:00:00Z',
      '2026-01-31T09:00:00.123456+02:00',
      '2024-02-29T00:00:00Z',
      '0001-01-01T00:00:00Z',
      '9999-12-31T23:59:59.999999Z',
      '2026-01-31t09:00:00z',
      '2016-12-31T23:59:60Z',
      '2017-01-01T00:59:60.5+01:00',
    ],
    [
      '2016-12-31T12:59:60Z',
      '2016-12-30T23:59:60Z',
      '9999-12-31T23:59:60Z',
      '2026-13-31T23:59:60Z',
      '2026-01-31T09:00Z',
      '2026-01-31',
      '2026-01-31T09:00:00',
      '2026-02-30T00:00:00Z',
      '2026-01-31 09:00:00Z',
      '0000-01-01T00:00:00Z',
      '0001-01-01T00:00:00+14:00',
      '9999-12-31T23:59:59-14:00',
      1,
      '',
    ],
  ],
  [
    'project name',
    projectName,
    ['a', ' a ', 'a'.repeat(64), '😀'.repeat(64)],
    ['', '   ', 'a'.repeat(65), 'a\u0000', 'a\nb', '\u0085'.concat('a\u0085b'), '\ud800'],
  ],
  ['note', note, ['a', 'ü'.repeat(1024)], ['', 'a'.repeat(1025), 'a\u0007', null]],
  [
    'cron',
    cron,
    ['* * * * *', '0 2 * * 1-5', '*/15 0,12 1 JAN SUN', '0 0 29 2 *', '0\t0 L * *'],
    [
      '',
      '* * * *',
      '* * * * * *',
      '@daily',
      '60 * * * *',
      '0 0 30 2 *',
      '? * * * *',
      '2030-01-01T00:00:00',
      '*/0 * * * *',
      '0 0 * * 8',
    ],
  ],
  [
    'time zone',
    timeZone,
    ['UTC', 'Europe/Berlin', 'America/Argentina/Ushuaia'],
    ['', '+02:00', 'Europe/Atlantis', 'a b', 5],
  ],
  [
    'labels',
    labels,
    [
      {},
      { app: '' },
      { 'example.com/a.b_c': 'X-1' },
      Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`k${i}`, 'v'])),
    ],
    [
      { '': 'a' },
      { '-a': 'a' },
      { 'a/b/c': 'a' },
      { 'A.com/a': 'a' },
      { a: '-' },
      { a: 'x'.repeat(64) },
      { ['x'.repeat(64)]: 'a' },
      { [`${'x'.repeat(254)}/a`]: 'a' },
      { a: 1 },
      { a: null },
      Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`k${i}`, 'v'])),
      [],
    ],
  ],
  [
    'callback URL',
    callbackUrl,
    [
      'https://example.com',
      'http://127.0.0.1:9/a?b=c',
      'HTTPS://EXAMPLE.com/ä',
      'https://[::1]:8443/',
      'https://0x7f.1/',
    ],
    [
      '',
      'example.com',
      'ftp://example.com',
      'https://',
      'https://u@example.com',
      'https://u:p@example.com',
      'https://example.com/#',
      ' https://example.com',
      'https://exa mple.com',
      'https://example.com/a b',
      'https:\\\\example.com',
      `https://example.com/${'a'.repeat(500)}`,
      'javascript:alert(1)',
    ],
  ],
  [
    'new monitor',
    createMonitor,
    [
      named({}),
      named({ monitorId: 'mine', intervalSeconds: 60, graceSeconds: 0 }),
      named({ intervalSeconds: 31_536_000, graceSeconds: 31_536_000, maxRuntimeSeconds: 604_800 }),
      named({ schedule: { cron: '* * * * *' } }),
      named({ description: 'a\nb\t', recoveryBeats: 10, missedBeatsToOpen: 10, awaitFirstBeat: false }),
      named({ name: 'a'.repeat(160), description: 'ü'.repeat(1000), jurisdiction: 'fedramp' }),
      named({ dependsOn: [] }),
      named({ dependsOn: Array.from({ length: 16 }, (_, index) => `m${index}`) }),
    ],
    [
      {},
      named({ name: null }),
      named({ name: 'a'.repeat(161) }),
      named({ description: 'a'.repeat(1001) }),
      named({ description: 'a\u0000' }),
      named({ intervalSeconds: 59 }),
      named({ intervalSeconds: 31_536_001 }),
      named({ intervalSeconds: 60.5 }),
      named({ intervalSeconds: '60' }),
      named({ intervalSeconds: null }),
      named({ intervalSeconds: Number.POSITIVE_INFINITY }),
      named({ graceSeconds: -1 }),
      named({ graceSeconds: 31_536_001 }),
      named({ intervalSeconds: 60, schedule: { cron: '* * * * *' } }),
      named({ schedule: { cron: '* * * * *', seconds: 1 } }),
      named({ jurisdiction: 'mars' }),
      named({ maxRuntimeSeconds: 0 }),
      named({ maxRuntimeSeconds: 604_801 }),
      named({ recoveryBeats: 0 }),
      named({ missedBeatsToOpen: 11 }),
      named({ awaitFirstBeat: 'yes' }),
      named({ lifecycle: 'active' }),
      named({ publishUrl: 'x' }),
      named({ monitorId: 'a b' }),
      named({ dependsOn: Array.from({ length: 17 }, (_, index) => `m${index}`) }),
      named({ dependsOn: ['a', 'a'] }),
      named({ dependsOn: ['a b'] }),
      named({ dependsOn: 'a' }),
    ],
  ],
  [
    'binding',
    bindingInput,
    [
      { kind: 'organization_default' },
      { kind: 'named', alias: 'ops' },
      { kind: 'inline', url: 'https://example.com' },
      { kind: 'disabled' },
    ],
    [
      {},
      { kind: 'other' },
      { kind: 'named' },
      { kind: 'named', alias: '-' },
      { kind: 'disabled', alias: 'ops' },
      'disabled',
    ],
  ],
  [
    'set binding',
    setBindingBody,
    [
      { binding: { kind: 'disabled' }, rotateSigningSecret: false },
      { binding: { kind: 'inline', url: 'https://example.com' }, rotateSigningSecret: true },
    ],
    [{}, { kind: 'disabled' }, { binding: { kind: 'disabled' }, rotateSigningSecret: true }],
  ],
  [
    'lifecycle change',
    lifecycleBody,
    [{ action: 'pause' }, { action: 'enter_maintenance', maintenance: window }],
    [
      {},
      { action: 'stop' },
      { action: 'enter_maintenance' },
      { action: 'pause', maintenance: window },
      { action: 'enter_maintenance', maintenance: { ...window, endsAt: window.startsAt } },
      { action: 'enter_maintenance', maintenance: { ...window, endsAt: '2026-01-31T00:00:00.001Z' } },
      { action: 'enter_maintenance', maintenance: { startsAt: window.startsAt } },
      { action: 'enter_maintenance', maintenance: { ...window, reason: 'a'.repeat(257) } },
    ],
  ],
  [
    'new callback endpoint',
    createCallbackBody,
    [
      webhook,
      { ...webhook, kind: 'webhook', endpointId: 'cb_1' },
      { alias: 'me', kind: 'relay_subscriber', relay: { actorId: 'a', notifierId: 'b' } },
      { alias: 'all', kind: 'relay_group', relayGroup: { notifierId: 'b' } },
    ],
    [
      {},
      { alias: 'ops' },
      { url: webhook.url },
      { ...webhook, alias: 'a'.repeat(65) },
      { ...webhook, relayGroup: { notifierId: 'b' } },
      { ...webhook, kind: 'relay_group' },
      {
        alias: 'me',
        kind: 'relay_subscriber',
        relay: { actorId: 'a', notifierId: 'b', contractVersion: '1' },
      },
      { alias: 'me', kind: 'relay_subscriber', relay: { actorId: 'a', notifierId: 'b\u0001' } },
      { ...webhook, lifecycle: 'active' },
    ],
  ],
  [
    'changed callback endpoint',
    updateCallbackBody,
    [{}, { lifecycle: 'disabled' }, { url: webhook.url, alias: 'b' }],
    [
      { url: webhook.url, relayGroup: { notifierId: 'b' } },
      { kind: 'webhook' },
      { lifecycle: 'removed' },
      { alias: null },
    ],
  ],
  [
    'secret rotation',
    rotateSecretBody,
    [{}, { overlapSeconds: 0 }, { overlapSeconds: 900 }],
    [{ overlapSeconds: 901 }, { overlapSeconds: -1 }],
  ],
  [
    'new credential',
    createCredentialBody,
    [
      { name: 'ci', preset: 'read' },
      { name: 'ci', preset: 'manage', scopes: ['usage:read'], expiresAt: window.endsAt },
    ],
    [
      { name: 'ci' },
      { name: 'ci', preset: 'owner' },
      { name: 'ci', preset: 'read', scopes: ['all'] },
      { name: '', preset: 'read' },
    ],
  ],
  [
    'measurement rule',
    measurementRule,
    [
      {},
      { minimum: -1.5, maximum: -1.5 },
      { minimum: null, maximum: 3, zeroExpectation: null, ratio: null },
      { maximumAbsoluteDelta: 0, maximumPercentageDelta: 0.1, unit: 'rows/s', mode: 'heartbeat' },
      { ratio: { denominator: 'all', minimum: 0, maximum: 1 }, missingPolicy: 'zero' },
      { minimum: 5, maximum: 1, disabledRules: ['maximum'] },
      { minimum: 1, ruleAction: { mode: 'active', version: 1 } },
      { ruleAction: { mode: 'inactive', version: 1 } },
      { minimum: 1, rulePolicy: { consecutiveObservations: 10, severity: 'info' } },
      { minimum: 1, rulePolicy: sustained, transform: 'log1p' },
      { zeroExpectation: 'zero', minimum: 1, transform: 'log1p' },
      { disabledRules: Array.from({ length: 8 }, () => 'ratio') },
    ],
    [
      { minimum: 2, maximum: 1 },
      { minimum: '1' },
      { minimum: Number.POSITIVE_INFINITY },
      { maximumAbsoluteDelta: -1 },
      { zeroExpectation: 'never' },
      { ratio: { denominator: 'all' } },
      { ratio: { minimum: 1 } },
      { ratio: { denominator: 'All', minimum: 1 } },
      { ratio: { denominator: 'all', minimum: 2, maximum: 1 } },
      { ruleAction: { mode: 'active', version: 1 } },
      { ruleAction: { mode: 'active', version: 2 }, minimum: 1 },
      { ruleAction: { mode: 'active' }, minimum: 1 },
      { minimum: 1, disabledRules: ['minimum'], ruleAction: { mode: 'active', version: 1 } },
      { minimum: null, ruleAction: { mode: 'active', version: 1 } },
      { zeroExpectation: 'zero', transform: 'log1p' },
      { rulePolicy: { consecutiveObservations: 1 } },
      { rulePolicy: { consecutiveObservations: 11, severity: 'info' } },
      { rulePolicy: { ...sustained, severity: 'info' } },
      { rulePolicy: { ...sustained, sustainedCriterion: { kind: 'observations', seconds: 1 } } },
      { rulePolicy: { ...sustained, sustainedCriterion: { kind: 'elapsed_time', seconds: 604_801 } } },
      { disabledRules: Array.from({ length: 9 }, () => 'ratio') },
      { disabledRules: ['other'] },
      { unit: 'a\u0000' },
      { unit: 'a'.repeat(65) },
      { mode: 'other' },
      { metricType: 'histogram' },
      { threshold: 1 },
    ],
  ],
];

describe.each(TABLE)('%s', (name, schema, good, bad) => {
  it.each(good.map((value) => [value]))(`${name}: %j is accepted`, (value) => {
    expect(schema.safeParse(value).error).toBeUndefined();
  });
  it.each(bad.map((value) => [value]))(`${name}: %j is refused`, (value) => {
    expect(schema.safeParse(value).success).toBe(false);
  });
});
