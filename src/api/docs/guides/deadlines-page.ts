// The page /docs/deadlines: when a beat is due, late and missed, and how a cadence is learned (docs/contract/deadlines.md).
import { GAPS_KEPT, GAPS_TO_LEARN, LEARNED_PERCENTILE } from '../../../domain/cadence.ts';
import { MONITOR_DEFAULTS } from '../../../domain/defaults.ts';
import { code, heading, html, table } from '../html.ts';
import { page } from '../page.ts';

const { graceSeconds, missedBeatsToOpen } = MONITOR_DEFAULTS;

/** `minimumSeconds`: the floor of interval, grace and learned cadence in this installation. */
export function deadlinesPage(minimumSeconds: number): string {
  return page(
    '/docs/deadlines',
    'Deadlines',
    html`<h1>Deadlines and learned cadence</h1>
<p>The time that counts is the service's own: the arrival of a beat by the clock of its database. What a sender states as <code>observedAt</code> is kept and moves nothing.</p>
${heading(2, 'When the next beat is due')}
${table(
  ['The monitor has', 'A beat is expected', 'The deadline is'],
  [
    ['`intervalSeconds`', 'that long after the last one', 'last beat + interval + grace'],
    [
      '`schedule`',
      'at each time of the cron expression, in its time zone',
      'the first cron time after the last beat + grace',
    ],
    [
      'neither',
      'as often as it came until now: the cadence is learned',
      'last beat + learned interval + grace',
    ],
  ],
)}
<p>The grace is <code>graceSeconds</code>, ${graceSeconds} where nothing is stated, and at least ${minimumSeconds}. A success or a failure moves the deadline; a <code>start</code> and a <code>log</code> do not. <code>status.nextDeadlineAt</code> of a monitor is the deadline.</p>
<p>An example: interval 3,600, grace 300, a beat at 10:00. From 11:00 on the monitor is <code>late</code>; at 11:05 the incident <code>missed_deadline</code> opens, about a second after the deadline. A beat at 11:03 makes all well, and the next deadline is 12:08.</p>
${heading(2, 'When the clock runs')}
<ul>
<li>It begins with the first beat; at the creation of the monitor where <code>awaitFirstBeat</code> is false.</li>
<li>After <code>resume</code>, <code>restore</code> and <code>exit_maintenance</code> it begins again with a full interval plus grace.</li>
<li>It stands while the monitor is paused or archived, while a cadence is being learned, and after a missed deadline until the next beat.</li>
<li>A deadline that falls into a maintenance window, one that was set or one of a maintenance schedule, moves to the end of the window.</li>
</ul>
${heading(2, 'Learned cadence')}
<p>A monitor with neither interval nor schedule measures its own cadence, from the gaps between its successes:</p>
<ol>
<li>While fewer than ${GAPS_TO_LEARN + 1} successes have come, <code>status.cadence.source</code> is <code>learning</code>, and no deadline runs.</li>
<li>From ${GAPS_TO_LEARN + 1} on it is <code>learned</code>: <code>status.cadence.intervalSeconds</code> is the ${LEARNED_PERCENTILE}th percentile of the last ${GAPS_KEPT} gaps, in whole seconds, at least ${minimumSeconds}. A high percentile and not the mean: half of all gaps are longer than a usual one.</li>
<li>With each success the cadence is learned anew. Gaps that cross a pause, a maintenance window or an open incident are not learned from.</li>
</ol>
<p>So with fewer than ${GAPS_KEPT} gaps the longest one counts. State an interval where you know it: a learned one notices a job that slowly becomes rarer later, or not at all.</p>
${code(`"cadence": {"source": "learned", "intervalSeconds": 3604, "sampleCount": ${GAPS_KEPT}}`)}
${heading(2, 'Missed deadlines')}
<p>With <code>missedBeatsToOpen</code> n (default ${missedBeatsToOpen}) that many deadlines pass in a row before the incident opens: each further interval without a beat counts as one more. One beat sets the count back.</p>
${heading(2, 'Runs that do not end')}
<p>With <code>maxRuntimeSeconds</code> a run that began with <code>/start</code> must end in that time, else <code>overdue_run</code> opens, once for that run. The limit runs beside the deadline.</p>
${heading(2, 'When Beatkeeper cannot take a beat')}
<p>An outage of the service, or of its database, never makes an alert.</p>
${table(
  ['', 'The service answers, but cannot store', 'Nothing answers'],
  [
    [
      'The sender gets',
      '503 with `Retry-After`, within 10 seconds (500 after a fault)',
      'no connection, or no answer',
    ],
    [
      'What to do',
      'Send it again: `curl --retry 3` does. A job need not fail for it',
      'the same, with `--retry-connrefused`',
    ],
    [
      'The deadline',
      'A success or fail counts as a sign of life: the deadline is at least its arrival + interval + grace, once the database is back',
      'A silence that the outage may explain gets one more full interval plus grace from its end',
    ],
    [
      'What is lost',
      'The beat is not recorded. It recovers nothing, and a fail opens no incident: only a retry does',
      'the same',
    ],
    [
      'The timeline of an incident that opens after it',
      '`service_outage` with `detail: {from, to, refusedBeats}`',
      '`service_outage` with `detail: {from, to}`',
    ],
  ],
)}
${heading(2, 'While no operator leads')}
<p>An operator may beat a monitor for a workload that it watches (<code>beatenBy</code>). Such a monitor is judged up to the last sign of life of its operator, and no further: while none leads it may be late, and never down. When an operator leads again, its absence counts as an outage for these monitors, with <code>reason: "no_operator"</code> in the timeline.</p>
${heading(2, 'A refused beat is no silence')}
<p>A success or a failure that is refused for its content, its size, its <code>Idempotency-Key</code> or a limit of the plan is not recorded, and moves the running deadline all the same: the job ran. A <code>start</code>, a <code>log</code> or a <code>cancel</code> moves it neither when it is accepted nor when it is refused. The last sentence of the refusal says which it was.</p>`,
  );
}
