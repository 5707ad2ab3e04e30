// The contract describes the body of a beat, and the beat path reads bodies without that schema: the two take the same.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { beatBody } from '../../src/contract/resources/beat.ts';
import { BEAT_STATUSES } from '../../src/domain/beat.ts';
import { jsonBeat, MAX_MESSAGE_CHARACTERS } from '../../src/domain/beat-input.ts';

const KNOWN = ['measurements', 'message', 'observedAt', 'status', 'runId', 'exitStatus'];
/** A body with one of these is meant for us, whatever else it has. */
const OURS_ALONE = ['measurements', 'observedAt', 'runId', 'exitStatus'];

type Anything = fc.Arbitrary<unknown>;
/** Mostly values that are right, some near the border, and a few of another kind. */
const mostly = (right: Anything, near: Anything): Anything =>
  fc.oneof(
    { weight: 16, arbitrary: right },
    { weight: 3, arbitrary: near },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  );

const anyRunId = mostly(
  fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_-]{0,9}$/),
  fc.oneof(
    fc.string({ unit: fc.constantFrom('a', '_', '-', '.', ' '), maxLength: 3 }),
    fc.integer({ min: 127, max: 129 }).map((length) => 'r'.repeat(length)),
  ),
);
const anyExitStatus = mostly(
  fc.integer({ min: 0, max: 255 }),
  fc.constantFrom(-1, -0, 0.5, 255.5, 256, 1e300),
);
const anyMessage = mostly(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc
    .tuple(
      fc.constantFrom('x', '\u{1F600}', '\0', '\uD800'),
      fc.constantFrom(MAX_MESSAGE_CHARACTERS / 2 + 1, MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_CHARACTERS + 1),
    )
    .map(([character, count]) => character.repeat(count)),
);
const anyTime = mostly(
  fc
    .date({ min: new Date(0), noInvalidDate: true, max: new Date('2100-01-01') })
    .map((date) => date.toISOString()),
  fc
    .record({
      year: fc.constantFrom('0000', '0001', '2024', '2026', '9999', '10000'),
      date: fc.constantFrom('01-01', '02-29', '02-30', '06-30', '12-31', '13-01'),
      time: fc.constantFrom(
        '08:00:00',
        '08:00',
        '23:59:60',
        '23:59:61',
        '24:00:00',
        '08:00:00.123456',
        '00:00:00.',
      ),
      zone: fc.constantFrom('Z', 'z', '', '+01:00', '-23:59', '-00:00', '+24:00', '+0100'),
      separator: fc.constantFrom('T', 't', ' '),
    })
    .map(({ year, date, time, zone, separator }) => `${year}-${date}${separator}${time}${zone}`),
);
const anyMeasurements = mostly(
  fc.dictionary(
    fc.stringMatching(/^[a-z][a-z0-9_]{0,5}$/),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    {
      maxKeys: 3,
      noNullPrototype: true,
    },
  ),
  fc.dictionary(
    fc.constantFrom('', 'rows', 'Rows', '_rows', '9', 'a-b', 'm'.repeat(64), 'm'.repeat(65)),
    fc.oneof(fc.double(), fc.jsonValue({ maxDepth: 1 })),
    { maxKeys: 2, noNullPrototype: true },
  ),
);
/** Bodies near the border between what is taken and what is refused. */
const anyBody = fc
  .record(
    {
      measurements: anyMeasurements,
      message: anyMessage,
      observedAt: anyTime,
      status: mostly(fc.constantFrom(...BEAT_STATUSES), fc.constantFrom('up', 'Success', '')),
      runId: anyRunId,
      exitStatus: anyExitStatus,
    },
    { requiredKeys: [], noNullPrototype: true },
  )
  .chain((fields) =>
    fc.oneof(
      { weight: 6, arbitrary: fc.constant<object>(fields) },
      {
        weight: 1,
        arbitrary: fc
          .dictionary(
            fc.constantFrom('messages', 'Status', 'constructor', 'alert'),
            fc.jsonValue({ maxDepth: 1 }),
            {
              maxKeys: 2,
              noNullPrototype: true,
            },
          )
          .map((more): object => ({ ...more, ...fields })),
      },
    ),
  );

/**
 * The one exception: JSON of other senders, which have a `status` and a `message` too, is a text (docs/contract/beats.md). The
 * contract describes beats, and refuses it.
 */
function isOfOtherSenders(body: unknown): boolean {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return true;
  const keys = Object.keys(body);
  const isOurs =
    keys.every((key) => KNOWN.includes(key)) ||
    keys.some((key) => OURS_ALONE.includes(key)) ||
    ('status' in body && BEAT_STATUSES.some((kind) => kind === body.status));
  return !isOurs;
}

it('the beat path takes the bodies that the contract takes, and refuses those that it refuses', () => {
  let taken = 0;
  let refused = 0;
  fc.assert(
    fc.property(
      fc.oneof({ weight: 9, arbitrary: anyBody }, { weight: 1, arbitrary: fc.jsonValue() }),
      (drawn) => {
        const text = JSON.stringify(drawn);
        const body: unknown = JSON.parse(text);
        const beat = jsonBeat({}, undefined, text);
        const isTaken = !('problem' in beat);
        const said = beatBody.safeParse(body);
        if (isOfOtherSenders(body)) {
          expect({ isTaken, inContract: said.success }).toEqual({ isTaken: true, inContract: false });
          expect(beat).toMatchObject({ kind: 'success' });
          return;
        }
        expect({ text, isTaken }).toEqual({ text, isTaken: said.success });
        if (isTaken) taken += 1;
        else refused += 1;
        if (!isTaken || !said.data) return;
        // What is stored is what the contract reads.
        const { runId, exitStatus, observedAt } = said.data;
        const instant = observedAt === undefined ? undefined : new Date(observedAt).toISOString();
        expect(beat).toMatchObject({ runId, exitStatus, observedAt: instant });
      },
    ),
    { numRuns: 5_000 },
  );
  expect(Math.min(taken, refused)).toBeGreaterThan(1_000);
});

it('a body with a known field of each kind is taken by both', () => {
  const body = {
    measurements: { rows: 1.5 },
    message: '\u{1F600}'.repeat(MAX_MESSAGE_CHARACTERS),
    observedAt: '2026-12-31t23:59:60z',
    status: 'fail',
    runId: 'run-1',
    exitStatus: 3,
  };
  expect(beatBody.safeParse(body).success).toBe(true);
  expect(jsonBeat({}, undefined, JSON.stringify(body))).toMatchObject({ kind: 'fail', exitStatus: 3 });
});
