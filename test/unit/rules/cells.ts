// Every cell of rule kind x metric type x missing policy x transform x policy, worked out by hand. One history for all:
//
//   beat               1    2    3    4    5    6      a minute apart
//   rows              10   30         0    4    4
//   files              5    5    5    0         2      the denominator
//
//   v as sent         10   30    *    0    4    4      * missing: not evaluated, 0, or refused
//   p                      10   30   30    0    4
//   v of a counter         20    *    0    4    0      0 at beat 4: from 30 to 0 is a reset, and counts from 0
//   p of a counter              20   20    0    4
//
//   log1p(10) = 2.397895   log1p(30) = 3.433987   log1p(20) = 3.044522   log1p(4) = 1.609438   log1p(0) = 0
//   3.433987 - 2.397895 = 1.036092, which is 43.208390 % of 2.397895
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import type { RuleKind } from '../../../src/domain/rules/rule-kinds.ts';

export const BEATS: readonly Record<string, number>[] = [
  { rows: 10, files: 5 },
  { rows: 30, files: 5 },
  { files: 5 },
  { rows: 0, files: 0 },
  { rows: 4 },
  { rows: 4, files: 2 },
];

/** Consecutive: two violations in a row, two conforming ones end it. */
export const CONSECUTIVE: MeasurementRule['rulePolicy'] = {
  consecutiveObservations: 2,
  severity: 'critical',
};
const consequences = { version: 1, transientConsequence: 'info', sustainedConsequence: 'critical' } as const;
/** Two violations in a row raise it, two conforming ones end it. */
export const BY_COUNT: MeasurementRule['rulePolicy'] = {
  ...consequences,
  sustainedCriterion: { kind: 'observations', observations: 2 },
};
/** Two minutes raise it, one conforming beat ends it. */
export const BY_TIME: MeasurementRule['rulePolicy'] = {
  ...consequences,
  sustainedCriterion: { kind: 'elapsed_time', seconds: 120 },
};

/**
 * The bounds of the cells, by rule and transform. log1p needs another rule beside that of 0: it is a maximum that no value of
 * log1p reaches.
 */
export const BOUNDS: Record<string, MeasurementRule> = {
  'minimum none': { minimum: 5 },
  'minimum log1p': { minimum: 2 },
  'maximum none': { maximum: 9 },
  'maximum log1p': { maximum: 2 },
  'maximumAbsoluteDelta none': { maximumAbsoluteDelta: 15 },
  'maximumAbsoluteDelta log1p': { maximumAbsoluteDelta: 1 },
  'maximumPercentageDelta none': { maximumPercentageDelta: 90 },
  'maximumPercentageDelta log1p': { maximumPercentageDelta: 40 },
  'nonzero none': { zeroExpectation: 'nonzero' },
  'nonzero log1p': { zeroExpectation: 'nonzero', maximum: 9 },
  'nonzero alone log1p': { zeroExpectation: 'nonzero' },
  'zero none': { zeroExpectation: 'zero' },
  'zero log1p': { zeroExpectation: 'zero', maximum: 9 },
  'zero alone log1p': { zeroExpectation: 'zero' },
  'ratio none': { ratio: { denominator: 'files', minimum: 1, maximum: 3 } },
  'ratio log1p': { ratio: { denominator: 'files', minimum: 1, maximum: 3 } },
};

/** The types whose value is taken as sent. */
export const AS_SENT = ['gauge', 'rate', 'duration', 'size', 'count'] as const;

/**
 * Of each beat: `.` conforms, `-` is not evaluated, `R` refuses the beat, a number violates, and is what was compared. MAX: a
 * change from 0 is more than any percentage. Then what is open after each beat by the three policies: `-` nothing, `i` open
 * at info, `C` open at critical, `r` recovering. Time passes with beats alone.
 *
 * `refused`: the contract refuses the definition.
 */
const TABLE = `
rule                    transform  type     missing  compared                                        consecutive  by count  by time
minimum                 none       sent     skip     . . - 0 4 4                                     ----CC       ---iCC    ---iiC
minimum                 none       sent     zero     . . 0 0 4 4                                     ---CCC       --iCCC    --iiCC
minimum                 none       sent     reject   . . R 0 4 4                                     ----CC       ---iCC    ---iiC
minimum                 none       counter  skip     - . - 0 4 0                                     ----CC       ---iCC    ---iiC
minimum                 none       counter  zero     - . 0 0 4 0                                     ---CCC       --iCCC    --iiCC
minimum                 none       counter  reject   - . R 0 4 0                                     ----CC       ---iCC    ---iiC
minimum                 log1p      sent     skip     . . - 0 1.609438 1.609438                       ----CC       ---iCC    ---iiC
minimum                 log1p      sent     zero     . . 0 0 1.609438 1.609438                       ---CCC       --iCCC    --iiCC
minimum                 log1p      sent     reject   . . R 0 1.609438 1.609438                       ----CC       ---iCC    ---iiC
minimum                 log1p      counter  skip     - . - 0 1.609438 0                              ----CC       ---iCC    ---iiC
minimum                 log1p      counter  zero     - . 0 0 1.609438 0                              ---CCC       --iCCC    --iiCC
minimum                 log1p      counter  reject   - . R 0 1.609438 0                              ----CC       ---iCC    ---iiC
maximum                 none       sent     skip     10 30 - . . .                                   -CCr--       iCCr--    iii---
maximum                 none       sent     zero     10 30 . . . .                                   -Cr---       iCr---    ii----
maximum                 none       sent     reject   10 30 R . . .                                   -CCr--       iCCr--    iii---
maximum                 none       counter  skip     - 20 - . . .                                    ------       -iir--    -ii---
maximum                 none       counter  zero     - 20 . . . .                                    ------       -ir---    -i----
maximum                 none       counter  reject   - 20 R . . .                                    ------       -iir--    -ii---
maximum                 log1p      sent     skip     2.397895 3.433987 - . . .                       -CCr--       iCCr--    iii---
maximum                 log1p      sent     zero     2.397895 3.433987 . . . .                       -Cr---       iCr---    ii----
maximum                 log1p      sent     reject   2.397895 3.433987 R . . .                       -CCr--       iCCr--    iii---
maximum                 log1p      counter  skip     - 3.044522 - . . .                              ------       -iir--    -ii---
maximum                 log1p      counter  zero     - 3.044522 . . . .                              ------       -ir---    -i----
maximum                 log1p      counter  reject   - 3.044522 R . . .                              ------       -iir--    -ii---
maximumAbsoluteDelta    none       sent     skip     . 20 - 30 . .                                   ---Cr-       -iiCr-    -iiC--
maximumAbsoluteDelta    none       sent     zero     . 20 30 30 . .                                  --CCr-       -iCCr-    -iiC--
maximumAbsoluteDelta    none       sent     reject   . 20 R 30 . .                                   ---Cr-       -iiCr-    -iiC--
maximumAbsoluteDelta    none       counter  skip     - . - 20 . .                                    ------       ---ir-    ---i--
maximumAbsoluteDelta    none       counter  zero     - . 20 20 . .                                   ---Cr-       --iCr-    --ii--
maximumAbsoluteDelta    none       counter  reject   - . R 20 . .                                    ------       ---ir-    ---i--
maximumAbsoluteDelta    log1p      sent     skip     . 1.036092 - 3.433987 1.609438 .                ---CCr       -iiCCr    -iiCC-
maximumAbsoluteDelta    log1p      sent     zero     . 1.036092 3.433987 3.433987 1.609438 .         --CCCr       -iCCCr    -iiCC-
maximumAbsoluteDelta    log1p      sent     reject   . 1.036092 R 3.433987 1.609438 .                ---CCr       -iiCCr    -iiCC-
maximumAbsoluteDelta    log1p      counter  skip     - . - 3.044522 1.609438 1.609438                ----CC       ---iCC    ---iiC
maximumAbsoluteDelta    log1p      counter  zero     - . 3.044522 3.044522 1.609438 1.609438         ---CCC       --iCCC    --iiCC
maximumAbsoluteDelta    log1p      counter  reject   - . R 3.044522 1.609438 1.609438                ----CC       ---iCC    ---iiC
maximumPercentageDelta  none       sent     skip     . 200 - 100 MAX .                               ---CCr       -iiCCr    -iiCC-
maximumPercentageDelta  none       sent     zero     . 200 100 100 MAX .                             --CCCr       -iCCCr    -iiCC-
maximumPercentageDelta  none       sent     reject   . 200 R 100 MAX .                               ---CCr       -iiCCr    -iiCC-
maximumPercentageDelta  none       counter  skip     - . - 100 MAX 100                               ----CC       ---iCC    ---iiC
maximumPercentageDelta  none       counter  zero     - . 100 100 MAX 100                             ---CCC       --iCCC    --iiCC
maximumPercentageDelta  none       counter  reject   - . R 100 MAX 100                               ----CC       ---iCC    ---iiC
maximumPercentageDelta  log1p      sent     skip     . 43.208390 - 100 MAX .                         ---CCr       -iiCCr    -iiCC-
maximumPercentageDelta  log1p      sent     zero     . 43.208390 100 100 MAX .                       --CCCr       -iCCCr    -iiCC-
maximumPercentageDelta  log1p      sent     reject   . 43.208390 R 100 MAX .                         ---CCr       -iiCCr    -iiCC-
maximumPercentageDelta  log1p      counter  skip     - . - 100 MAX 100                               ----CC       ---iCC    ---iiC
maximumPercentageDelta  log1p      counter  zero     - . 100 100 MAX 100                             ---CCC       --iCCC    --iiCC
maximumPercentageDelta  log1p      counter  reject   - . R 100 MAX 100                               ----CC       ---iCC    ---iiC
nonzero                 none       sent     skip     . . - 0 . .                                     ------       ---ir-    ---i--
nonzero                 none       sent     zero     . . 0 0 . .                                     ---Cr-       --iCr-    --ii--
nonzero                 none       sent     reject   . . R 0 . .                                     ------       ---ir-    ---i--
nonzero                 none       counter  skip     - . - 0 . 0                                     ------       ---iri    ---i-i
nonzero                 none       counter  zero     - . 0 0 . 0                                     ---CrC       --iCrC    --ii-i
nonzero                 none       counter  reject   - . R 0 . 0                                     ------       ---iri    ---i-i
nonzero                 log1p      sent     skip     . . - 0 . .                                     ------       ---ir-    ---i--
nonzero                 log1p      sent     zero     . . 0 0 . .                                     ---Cr-       --iCr-    --ii--
nonzero                 log1p      sent     reject   . . R 0 . .                                     ------       ---ir-    ---i--
nonzero                 log1p      counter  skip     - . - 0 . 0                                     ------       ---iri    ---i-i
nonzero                 log1p      counter  zero     - . 0 0 . 0                                     ---CrC       --iCrC    --ii-i
nonzero                 log1p      counter  reject   - . R 0 . 0                                     ------       ---iri    ---i-i
nonzero alone           log1p      sent     *        refused
nonzero alone           log1p      counter  *        refused
zero                    none       sent     skip     10 30 - . 4 4                                   -CCrCC       iCCrCC    iii-ii
zero                    none       sent     zero     10 30 . . 4 4                                   -Cr--C       iCr-iC    ii--ii
zero                    none       sent     reject   10 30 R . 4 4                                   -CCrCC       iCCrCC    iii-ii
zero                    none       counter  skip     - 20 - . 4 .                                    ------       -iirir    -ii-i-
zero                    none       counter  zero     - 20 . . 4 .                                    ------       -ir-ir    -i--i-
zero                    none       counter  reject   - 20 R . 4 .                                    ------       -iirir    -ii-i-
zero                    log1p      sent     skip     10 30 - . 4 4                                   -CCrCC       iCCrCC    iii-ii
zero                    log1p      sent     zero     10 30 . . 4 4                                   -Cr--C       iCr-iC    ii--ii
zero                    log1p      sent     reject   10 30 R . 4 4                                   -CCrCC       iCCrCC    iii-ii
zero                    log1p      counter  skip     - 20 - . 4 .                                    ------       -iirir    -ii-i-
zero                    log1p      counter  zero     - 20 . . 4 .                                    ------       -ir-ir    -i--i-
zero                    log1p      counter  reject   - 20 R . 4 .                                    ------       -iirir    -ii-i-
zero alone              log1p      sent     *        refused
zero alone              log1p      counter  *        refused
ratio                   none       sent     skip     . 6 - - - .                                     ------       -iiiir    -iiii-
ratio                   none       sent     zero     . 6 0 0 0 .                                     --CCCr       -iCCCr    -iiCC-
ratio                   none       sent     reject   . 6 R R R .                                     ------       -iiiir    -iiii-
ratio                   none       counter  skip     - 4 - - - 0                                     -----C       -iiiiC    -iiiiC
ratio                   none       counter  zero     - 4 0 0 0 0                                     --CCCC       -iCCCC    -iiCCC
ratio                   none       counter  reject   - 4 R R R .                                     ------       -iiiir    -iiii-
ratio                   log1p      sent     skip     . 6 - - - .                                     ------       -iiiir    -iiii-
ratio                   log1p      sent     zero     . 6 0 0 0 .                                     --CCCr       -iCCCr    -iiCC-
ratio                   log1p      sent     reject   . 6 R R R .                                     ------       -iiiir    -iiii-
ratio                   log1p      counter  skip     - 4 - - - 0                                     -----C       -iiiiC    -iiiiC
ratio                   log1p      counter  zero     - 4 0 0 0 0                                     --CCCC       -iCCCC    -iiCCC
ratio                   log1p      counter  reject   - 4 R R R .                                     ------       -iiiir    -iiii-
`;

export interface Cell {
  title: string;
  kind: RuleKind;
  rule: MeasurementRule;
  /** Of each beat. Empty: the contract refuses the definition. */
  compared: string[];
  /** After each beat: by CONSECUTIVE, BY_COUNT and BY_TIME. */
  open: string[];
}

const MISSING = ['skip', 'zero', 'reject'] as const;

/** A row with `sent` is a cell of each such type; one with `*`, of each missing policy. */
export function readCells(): Cell[] {
  const rows = TABLE.trim().split('\n').slice(1);
  return rows.flatMap((row) => {
    const [name = '', transform = '', type, missing, compared = '', ...open] = row.trim().split(/ {2,}/);
    const types = type === 'sent' ? AS_SENT : (['counter'] as const);
    const policies = MISSING.filter((policy) => missing === '*' || policy === missing);
    const bounds = BOUNDS[`${name} ${transform}`];
    return types.flatMap((metricType) =>
      policies.map((missingPolicy) => ({
        title: `${name}, ${transform}, ${metricType}, ${missingPolicy}`,
        kind: /^(non)?zero/.test(name) ? 'zeroExpectation' : (name as RuleKind),
        rule: { ...bounds, metricType, missingPolicy, transform: transform as 'none' | 'log1p' },
        compared: compared === 'refused' ? [] : compared.split(' '),
        open,
      })),
    );
  });
}
