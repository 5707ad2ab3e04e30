// For any history of a monitor: the parts of its deadline add up to the deadline in the database, and what is answered of
// a moment later is what was answered then (docs/contract/monitors.md).
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SEVERITIES, type Severity } from '../../src/domain/incident.ts';
import type { MaintenanceSchedule } from '../../src/domain/maintenance.ts';
import type { MeasurementRule, MonitorConfiguration } from '../../src/domain/monitor.ts';
import type { ExplainedMonitor } from '../../src/service/monitors/explain.ts';
import { type ClockedFixture, openClockedFixture } from '../support/clocked-fixture.ts';
import { readDeadline } from '../support/explained-sentence.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';
import { type History, makeHistory } from './explain-history.ts';

let fixture: ClockedFixture;
let clock: VirtualClock;
beforeAll(async () => {
  fixture = await openClockedFixture();
  clock = fixture.clock;
});
afterAll(() => fixture?.close());

const MINUTE_MS = 60_000;

const STATED = [
  { intervalSeconds: 600 },
  { intervalSeconds: 3600 },
  { schedule: { cron: '*/30 * * * *', timeZone: 'Europe/Berlin' } },
];
/** One violation of `rows` opens an incident and one conforming success ends it; of `size` it takes two in a row. */
const rulesOf = (severity: Severity): Record<string, MeasurementRule> => ({
  rows: { minimum: 10, rulePolicy: { consecutiveObservations: 1, severity } },
  size: { maximum: 4, rulePolicy: { consecutiveObservations: 2, severity: 'warning' } },
});
const configuration = fc.record({
  cadence: fc.constantFrom<object>(...STATED),
  graceSeconds: fc.constantFrom(60, 300, 1800),
  awaitFirstBeat: fc.boolean(),
  /** An operator beats it. */
  isBeaten: fc.boolean(),
  missedBeatsToOpen: fc.integer({ min: 1, max: 3 }),
  recoveryBeats: fc.integer({ min: 1, max: 2 }),
  measurements: fc.constantFrom(...SEVERITIES.map(rulesOf)),
  maintenanceSchedules: fc.constantFrom<MaintenanceSchedule[] | undefined>(undefined, undefined, [
    { cron: '15 */2 * * *', timeZone: 'UTC', durationSeconds: 2_700, reason: 'Backup' },
  ]),
});

const RECORDED = [
  'success',
  'success',
  'violate',
  'conform',
  'fail',
  'start',
  'log',
  'pause',
  'resume',
  'enter_maintenance',
  'exit_maintenance',
  'archive',
  'restore',
  'patch',
  'resolve',
  'wait',
  'die',
  'lead',
] as const;
/** Of these, and of starts that follow each other, the past knows less than the present. */
const UNRECORDED = ['refused', 'outage', 'excuse', 'suspend', 'return'] as const;
type Step = (typeof RECORDED)[number] | (typeof UNRECORDED)[number];

interface Taken {
  step: Step;
  minutes: number;
  number: number;
}

const historyOf = (steps: readonly Step[]): fc.Arbitrary<Taken[]> =>
  fc.array(
    fc.record({
      step: fc.constantFrom(...steps),
      minutes: fc.integer({ min: 1, max: 90 }),
      number: fc.nat(5),
    }),
    { minLength: 1, maxLength: 12 },
  );

/** Nothing of the history before it is left. */
async function begin({
  isBeaten,
  ...configured
}: Partial<MonitorConfiguration> & { isBeaten: boolean }): Promise<History> {
  await fixture.pool.query('delete from service_outages');
  await fixture.pool.query('truncate operator_signs, operator_outages');
  await clock.pool.query(`update organizations set service_state = 'active', returned_at = null`);
  const history = await makeHistory(fixture, clock, configured);
  if (isBeaten) await history.beBeaten();
  return history;
}

async function take(history: History, step: Step, number: number): Promise<void> {
  const nowMs = clock.nowMs;
  switch (step) {
    case 'wait':
      return;
    case 'die':
    case 'lead':
      return await history.setLed(step === 'lead');
    case 'refused':
      return await history.beat(
        'success',
        Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`m${i}`, 1])),
      );
    case 'violate':
      return await history.beat('success', { rows: number, size: number + 3 });
    case 'conform':
      return await history.beat('success', { rows: 10 + number, size: 0 });
    case 'outage':
      await history.haveOutage(number * MINUTE_MS + 4_000);
      return;
    case 'excuse':
      return await history.excuse(number + 1);
    case 'suspend':
      await history.setState('canceled');
      return;
    case 'return':
      await history.setState('active');
      return;
    case 'patch':
      return await history.patch(
        number % 2 === 0
          ? { graceSeconds: 60 * (number + 1) }
          : { intervalSeconds: 600 * number, schedule: null },
      );
    case 'resolve': {
      const [incident] = (await history.read()).openIncidents;
      if (incident) await history.resolve(incident.incidentId);
      return;
    }
    case 'enter_maintenance':
      return await act(history, step, {
        startsMs: nowMs - MINUTE_MS,
        endsMs: nowMs + number * 15 * MINUTE_MS + 1,
      });
    case 'pause':
    case 'resume':
    case 'exit_maintenance':
    case 'archive':
    case 'restore':
      return await act(history, step);
    default:
      return await history.beat(step);
  }
}

/** Nothing where the lifecycle does not allow it. */
async function act(history: History, ...action: Parameters<History['act']>): Promise<void> {
  await history.act(...action).catch((error) => {
    if (error.code !== 'conflict') throw error;
  });
}

/** A sweeper looks at each moment at which there is something to do: it opens what is missed before a window begins. */
async function sweepFor(history: History, ms: number): Promise<void> {
  const untilMs = clock.nowMs + ms;
  while (clock.nowMs < untilMs) {
    const { wakeMs = untilMs } = (await history.read()).live;
    const nextMs = Math.min(untilMs, Math.max(wakeMs, clock.nowMs + 1));
    await clock.pass(nextMs - clock.nowMs);
    await history.sweep();
  }
}

function sumOf({ deadline: { parts } }: ExplainedMonitor): number {
  return parts.reduce((sum, { ms = 0 }) => sum + ms, parts[0]?.atMs ?? 0);
}

/** The sentence names the deadline of the explanation, or the one that was missed, and what it adds up to that. */
async function expectToAddUp(history: History, { deadline: { atMs } }: ExplainedMonitor): Promise<void> {
  const because = await history.because();
  const told = readDeadline(because);
  if (!told) return;
  const { configuration, openIncidents } = await history.read();
  const missed = openIncidents.find(({ kind, state }) => kind === 'missed_deadline' && state === 'open');
  const expectedMs = told.isMissed ? missed?.deadlineMs : atMs;
  expect([because, told.atMs]).toEqual([because, Math.floor((expectedMs ?? 0) / 1_000) * 1_000]);
  if (told.place) expect(told.place.of).toBe(configuration.missedBeatsToOpen);
  const { sumMs = told.atMs, toleranceMs } = told;
  expect(Math.abs(sumMs - told.atMs), because).toBeLessThanOrEqual(toleranceMs);
}

/** What the status feed says is what `explain` says, but for days and a deadline for which a schedule would be asked. */
async function expectSameWords(history: History, { because }: ExplainedMonitor): Promise<void> {
  const withoutDays = (words: string) => words.replaceAll(/\d{4}-\d{2}-\d{2} /g, '');
  const [told, explained] = [await history.because(), because].map(withoutDays);
  if (told === explained) return;
  const { configuration } = await history.read();
  expect(configuration.schedule).toBeDefined();
  const withoutDeadline = explained
    ?.replace(/^Late since [^:]*:\d\d:\d\d UTC/, 'Late')
    .replace(/(;|(?<=beat):) (the deadline|deadline \d of \d) is \d\d:\d\d:\d\d UTC( \([^)]*\))?\./, '.');
  const withoutParts = explained?.replace(/(?<=was \d\d:\d\d:\d\d UTC) \([^)]*\)/, '');
  expect([withoutDeadline, withoutParts]).toContain(told);
}

const given = {
  cadence: { intervalSeconds: 600 },
  graceSeconds: 60 as const,
  awaitFirstBeat: false,
  isBeaten: false,
  missedBeatsToOpen: 1,
  recoveryBeats: 2,
  measurements: {},
  maintenanceSchedules: undefined,
};
/** Each thing that moves a deadline, with a deadline after it that is missed. */
const MOVED: [typeof given, Taken[]][] = (
  ['outage', 'excuse', 'enter_maintenance', 'resume', 'suspend'] as const
).map((step) => [
  { ...given, missedBeatsToOpen: 2 },
  [
    { step: 'success', minutes: 2, number: 0 },
    ...(step === 'resume' ? [{ step: 'pause', minutes: 2, number: 0 } as const] : []),
    { step, minutes: 4, number: 2 },
    ...(step === 'suspend' ? [{ step: 'return', minutes: 2, number: 0 } as const] : []),
    { step: 'wait', minutes: 20, number: 0 },
    { step: 'wait', minutes: 60, number: 0 },
  ],
]);

/** An operator that dies and leads again, before the deadline and past it, also with an outage of the service. */
const LED: [typeof given, Taken[]][] = ([3, 30] as const).flatMap((minutes) =>
  (['wait', 'outage'] as const).map((step): [typeof given, Taken[]] => [
    { ...given, isBeaten: true, missedBeatsToOpen: 2 },
    [
      { step: 'success', minutes: 2, number: 0 },
      { step: 'die', minutes, number: 0 },
      { step: 'lead', minutes: 5, number: 0 },
      { step, minutes: 5, number: 3 },
      { step: 'wait', minutes: 90, number: 0 },
    ],
  ]),
);

/** A sentence whose deadline has no parts, and that goes on with an incident. */
const CHANGED: [Omit<typeof given, 'cadence'> & { cadence: object }, Taken[]] = [
  { ...given, cadence: STATED[2] ?? {}, graceSeconds: 60, measurements: rulesOf('warning') },
  [
    { step: 'violate', minutes: 2, number: 0 },
    { step: 'patch', minutes: 2, number: 4 },
    { step: 'outage', minutes: 1, number: 1 },
    { step: 'excuse', minutes: 1, number: 1 },
  ],
];

it('the parts of a deadline add up to that in the database', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      // Of a cadence that is learned the past is not kept.
      fc.oneof(
        configuration,
        configuration.map((one) => ({ ...one, cadence: {} })),
      ),
      historyOf([...RECORDED, ...UNRECORDED]),
      async ({ cadence, ...more }, steps) => {
        const history = await begin({ ...cadence, ...more });
        for (const { step, minutes, number } of steps) {
          await clock.pass(1);
          await take(history, step, number);
          await clock.pass(minutes * MINUTE_MS);
          await history.sweep();
          const { live } = await history.read();
          const explained = await history.explain();
          expect([step, explained.deadline.atMs]).toEqual([step, live.deadlineMs]);
          if (explained.deadline.atMs !== undefined) expect(sumOf(explained)).toBe(live.deadlineMs);
          for (const { note } of explained.deadline.parts) expect(note).toMatch(/^[A-Z].*\.$/);
          expect(explained.because).toMatch(/^[A-Z].*\.$/);
          await expectSameWords(history, explained);
          await expectToAddUp(history, explained);
        }
      },
    ),
    { numRuns: 25, examples: [...MOVED, ...LED, CHANGED] },
  );
});

const KNOWN: [typeof given, Taken[]][] = [
  // The deadline is missed a second time while the incident is open, and the monitor is changed after that.
  [
    given,
    [
      { step: 'success', minutes: 11, number: 0 },
      { step: 'start', minutes: 1, number: 0 },
      { step: 'enter_maintenance', minutes: 10, number: 0 },
      { step: 'patch', minutes: 1, number: 2 },
    ],
  ],
  // It is resolved after the deadline was missed a second time.
  [
    given,
    [
      { step: 'success', minutes: 11, number: 0 },
      { step: 'fail', minutes: 11, number: 0 },
      { step: 'resolve', minutes: 1, number: 0 },
      { step: 'success', minutes: 1, number: 0 },
    ],
  ],
  // An incident that recovers opens again, with an alert.
  [
    given,
    [
      { step: 'success', minutes: 11, number: 0 },
      { step: 'success', minutes: 1, number: 0 },
      { step: 'start', minutes: 10, number: 0 },
    ],
  ],
];

it('a moment is explained later as it was then', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      configuration,
      historyOf(RECORDED.filter((step) => step !== 'start')),
      async ({ cadence, ...more }, steps) => {
        const history = await begin({ ...cadence, ...more });
        const told: ExplainedMonitor[] = [];
        for (const { step, minutes, number } of steps) {
          await clock.pass(1);
          await take(history, step, number);
          await sweepFor(history, minutes * MINUTE_MS);
          told.push(await history.explain());
        }
        for (const then of told) expect(await history.explain(then.atMs)).toEqual(then);
      },
    ),
    {
      numRuns: 25,
      examples: [...KNOWN, ...LED.filter(([, steps]) => steps.every(({ step }) => step !== 'outage'))],
    },
  );
});
