// Requests as handlers get them: parsed input for a valid one, every fault with its path for an invalid one.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OperationId, OperationInput } from '../../src/contract/operations/operations.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import { parseRequest, type RawRequest } from '../../src/contract/operations/request.ts';
import { fieldError } from '../../src/contract/resources/problem.ts';
import { ProblemError } from '../../src/domain/problem.ts';

const operations = contractOperations();
const headers = { 'idempotency-key': 'a-key', 'if-match': '"configuration-1"' };
const raw: RawRequest = { params: {}, query: {}, body: undefined, headers };

function parse<Id extends OperationId>(id: Id, request: Partial<RawRequest>): OperationInput<Id> {
  return parseRequest(operations[id], { ...raw, ...request }) as OperationInput<Id>;
}

function refusal(id: OperationId, request: Partial<RawRequest>): ProblemError {
  try {
    parse(id, request);
  } catch (error) {
    if (error instanceof ProblemError) return error;
    throw error;
  }
  throw new Error('The request was accepted.');
}

function faults(id: OperationId, request: Partial<RawRequest>): string[] {
  return (refusal(id, request).options.fieldErrors ?? []).map(({ path, code }) => `${path}: ${code}`);
}

const params = { monitorId: 'mon_1' };

describe('a query string', () => {
  const messageOf = (id: OperationId, query: RawRequest['query']) =>
    refusal(id, { params, query }).options.fieldErrors?.map(({ path, code, message }) => [
      path,
      code,
      message,
    ]);

  it('a parameter that may be given once and is given twice is named with what to do', () => {
    const once = 'State this parameter once.';
    const cases: [OperationId, string, [string, string]][] = [
      ['listMonitors', 'limit', ['1', '2']],
      ['listMonitors', 'cursor', ['a', 'b']],
      ['listMonitors', 'lifecycle', ['active', 'paused']],
      ['listIncidents', 'since', ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']],
    ];
    for (const [id, name, value] of cases) {
      expect(messageOf(id, { [name]: value })).toEqual([[name, 'repeated', once]]);
    }
    expect(faults('listMonitors', { query: { unknown: ['1', '2'] } })).toEqual(['unknown: unknown_field']);
    for (const unknown of ['constructor', 'toString', '__proto__']) {
      const query = Object.fromEntries([[unknown, ['1', '2']]]);
      expect(faults('listMonitors', { query })).toEqual([`${unknown}: unknown_field`]);
    }
    expect(parse('listMonitors', { query: { label: ['a=b', 'c=d'] } }).query).toMatchObject({
      label: ['a=b', 'c=d'],
    });
  });

  it('a time whose "+" was read as a blank is refused with how to write it', () => {
    for (const time of ['2026-01-01T00:00:00 02:00', '2026-01-01t00:00:00.5 02:00']) {
      expect(messageOf('listIncidents', { since: time })).toEqual([
        ['since', 'invalid_format', expect.stringContaining('%2B')],
      ]);
    }
    for (const time of ['2026-01-01 00:00:00', '2026-01-01T00:00:00', 'yesterday']) {
      expect(messageOf('listIncidents', { since: time })).toEqual([
        ['since', 'invalid_format', expect.not.stringContaining('%2B')],
      ]);
    }
  });
});

describe('a valid request', () => {
  it('a parsed body is trimmed and has its defaults', () => {
    const { body, idempotencyKey } = parse('createMonitor', { body: { name: '  Nightly\t' } });
    expect(idempotencyKey).toBe('a-key');
    expect(body).toEqual({
      name: 'Nightly',
      labels: {},
      graceSeconds: 300,
      jurisdiction: 'unrestricted',
      callback: { kind: 'organization_default' },
      awaitFirstBeat: true,
      recoveryBeats: 1,
      missedBeatsToOpen: 1,
    });
  });

  it('a parsed query has the types of its schema', () => {
    expect(parse('listMonitors', { query: { limit: '7', label: 'a=b' } }).query).toEqual({
      limit: 7,
      label: ['a=b'],
    });
    expect(parse('listMonitors', { query: {} }).query).toEqual({ limit: 50 });
    expect(parse('getFirstBeat', { params, query: { waitSeconds: '30' } }).query).toEqual({
      waitSeconds: 30,
    });
  });

  it('a missing optional body counts as empty, with its defaults', () => {
    expect(parse('acknowledgeIncident', { params: { incidentId: 'inc_1' } }).body).toEqual({});
    expect(parse('rotatePublishUrl', { params }).body).toEqual({ overlapSeconds: 0 });
  });

  it('a grace below the floor is raised to it', () => {
    expect(parse('createMonitor', { body: { name: 'a', graceSeconds: 0 } }).body.graceSeconds).toBe(60);
    const patch = parse('updateMonitor', { params, body: { patch: { graceSeconds: 59 } } }).body.patch;
    expect(patch.graceSeconds).toBe(60);
  });

  it('an interval below 60 seconds is valid when a development run lowers the floor', () => {
    const lowered = contractOperations({ minimumIntervalSeconds: 2 });
    const body = { name: 'a', intervalSeconds: 2, graceSeconds: 1 };
    expect(parseRequest(lowered.createMonitor, { ...raw, body }).body).toMatchObject({
      intervalSeconds: 2,
      graceSeconds: 2,
    });
  });
});

describe('an invalid request', () => {
  it('a refusal lists every fault with its path', () => {
    const body = {
      name: ' ',
      intervalSeconds: 59,
      schedule: { cron: '61 * * * *', timeZone: 'Mars/Base' },
      labels: { 'not ok': 'x', ok: 'not ok' },
      callback: { kind: 'named' },
      colour: 'red',
    };
    expect(faults('createMonitor', { body, headers: {} })).toEqual([
      'Idempotency-Key: required',
      'name: too_short',
      'labels.not ok: invalid_key',
      'labels.ok: invalid_format',
      'intervalSeconds: too_small',
      'schedule.cron: invalid_cron',
      'schedule.timeZone: invalid_time_zone',
      'callback.alias: required',
      'colour: unknown_field',
    ]);
  });

  it('the path of a fault begins at the root of the body', () => {
    const body = { patch: { measurements: { rows: { minimum: 2, maximum: 1 } } } };
    expect(faults('updateMonitor', { params, body })).toEqual([
      'patch.measurements.rows.minimum: minimum_above_maximum',
    ]);
    expect(faults('setMonitorBinding', { params, body: { binding: { kind: 'inline' } } })).toEqual([
      'binding.url: required',
    ]);
  });

  it('a missing If-Match is precondition_required, a malformed one a fault of the header', () => {
    expect(refusal('deleteMonitor', { params, headers: {} }).code).toBe('precondition_required');
    for (const value of [
      '*',
      'configuration-1',
      'W/"configuration-1"',
      '"a", "b"',
      '""',
      `"${'a'.repeat(129)}"`,
    ]) {
      expect(faults('deleteMonitor', { params, headers: { 'if-match': value } })[0]).toMatch(/^If-Match: /);
    }
  });

  it('unknown query parameters and repeated single ones are refused by name', () => {
    expect(faults('listMonitors', { query: { limit: ['1', '2'], stat: 'up' } })).toEqual([
      'limit: repeated',
      'stat: unknown_field',
    ]);
    expect(faults('listMonitors', { query: { label: 'a' } })).toEqual(['label: invalid_format']);
    expect(faults('listMonitors', { query: { label: ['a=b', 'c'], 'label.0': 'a' } })).toEqual([
      'label: invalid_format',
      'label.0: unknown_field',
    ]);
    expect(faults('listProjects', { query: { limit: '201' } })).toEqual(['limit: too_big']);
    expect(faults('listProjects', { query: { limit: '1e2' } })).toEqual(['limit: invalid_type']);
    expect(faults('getIncident', { params: { incidentId: 'inc_1' }, query: { a: 'b' } })).toEqual([
      'a: unknown_field',
    ]);
  });

  it.each([undefined, null, 'text', 7, [], true])(
    'the body %j of a create is refused with one fault',
    (body) => {
      expect(faults('createMonitor', { body })).toHaveLength(1);
    },
  );

  it('null is refused even as an optional body', () => {
    const incident = { params: { incidentId: 'inc_1' } };
    expect(parse('resolveIncident', incident).body).toEqual({});
    expect(faults('resolveIncident', { ...incident, body: null })).toEqual(['body: invalid_type']);
  });

  it('a text in place of a list reports its type, not its length', () => {
    const credential = { name: 'a', preset: 'read', scopes: 'usage:read' };
    expect(faults('createCredential', { body: credential })).toEqual(['scopes: invalid_type']);
    const patch = { measurements: { rows: { disabledRules: 'maximumAbsoluteDelta' } } };
    expect(faults('updateMonitor', { params, body: { patch } })).toEqual([
      'patch.measurements.rows.disabledRules: invalid_type',
    ]);
  });

  it('a path parameter that is not an identifier is refused', () => {
    expect(faults('getMonitor', { params: { monitorId: '../x' } })).toEqual(['monitorId: invalid_format']);
  });

  it('a refusal lists at most 32 faults', () => {
    const body = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`field${index}`, index]));
    expect(faults('createMonitor', { body })).toHaveLength(32);
  });

  it('every fault of any JSON fits the schema of a problem body', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.string(), (value, key) => {
        for (const body of [
          value,
          { [key]: value },
          { patch: value },
          { patch: { measurements: { [key]: value } } },
        ]) {
          for (const id of [
            'createMonitor',
            'updateMonitor',
            'createCallback',
            'changeMonitorLifecycle',
          ] as const) {
            let problem: ProblemError | undefined;
            try {
              parse(id, { params, body });
            } catch (error) {
              problem = error as ProblemError;
            }
            for (const fault of problem?.options.fieldErrors ?? []) {
              expect(fieldError.safeParse(fault).error).toBeUndefined();
            }
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  it('hostile texts are parsed in time linear to their length', () => {
    const long = 'a'.repeat(8_000);
    const hostile = [
      `${long}!`,
      'a.'.repeat(4_000),
      `${'a-'.repeat(4_000)}/`,
      `${'1,'.repeat(4_000)}* * * *`,
    ];
    // CPU time, so that a busy machine does not fail the test.
    const before = process.cpuUsage();
    for (const text of hostile) {
      const url = `https://${text}`;
      const schedule = { cron: text, timeZone: text };
      faults('createMonitor', {
        body: { name: text, labels: { [text]: text }, schedule, callback: { kind: 'inline', url } },
      });
      faults('listMonitors', { query: { label: [text, `a=${text}`], cursor: text } });
    }
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
  });
});
