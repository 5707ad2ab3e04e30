// The page /docs/beats: recipes for sending beats from jobs and other systems (docs/contract/beats.md). The blocks of class
// `run` and the bodies of the table are sent by a test, and do what the page says.
import type { BeatKind } from '../../../domain/beat.ts';
import { MAX_MESSAGE_CHARACTERS } from '../../../domain/beat-input.ts';
import { IDEMPOTENCY_HOURS } from '../../../domain/retention.ts';
import { code, commands, type Html, heading, html, table } from '../html.ts';
import { page } from '../page.ts';

const characters = MAX_MESSAGE_CHARACTERS.toLocaleString('en-US');

interface JsonExample {
  /** Sent to the bare address. */
  body: string;
  makes: BeatKind | 'refused';
  isText: boolean;
  why: string;
}

export const JSON_EXAMPLES: readonly JsonExample[] = [
  {
    body: '{"measurements":{"rows":1042}}',
    makes: 'success',
    isText: false,
    why: 'A beat: it has measurements.',
  },
  {
    body: '{"status":"fail","message":"disk full"}',
    makes: 'fail',
    isText: false,
    why: 'A beat: the status is one of the four.',
  },
  {
    body: '{"status":"ok"}',
    makes: 'refused',
    isText: false,
    why: 'A beat, because every field is one of a beat; its status is not one of the four. 400.',
  },
  {
    body: '{"status":"ok","service":"db"}',
    makes: 'success',
    isText: true,
    why: 'Text: it has another field, and none that only a beat has.',
  },
  {
    body: '{"status":"firing","alerts":[]}',
    makes: 'success',
    isText: true,
    why: 'Text, as from Alertmanager and Grafana.',
  },
  {
    body: '{"message":"done","mesurements":{}}',
    makes: 'success',
    isText: true,
    why: 'Text. A misspelled field is found only beside one that only a beat has.',
  },
];

export function beatsPage(): string {
  return page(
    '/docs/beats',
    'Beats',
    html`<h1>Send beats</h1>
<p>A beat is one request to the <code>publishUrl</code> of a monitor, with GET, HEAD or POST and without a token. The address is the only secret. <code>OK</code> means that the beat is durable: it is on disk.</p>
${addresses()}
${fromJobs()}
${fromCron()}
${sentAgain()}
${jsonBodies()}
${otherSenders()}`,
  );
}

function addresses(): Html {
  return html`${heading(2, 'What the address says')}
${table(
  ['Address', 'Kind of the beat', 'Moves the deadline'],
  [
    ['`$PUBLISH_URL`', '`success`: the job has run', 'yes'],
    ['`$PUBLISH_URL/fail`', '`fail`: the run failed. An incident opens at once', 'yes: the job came in time'],
    ['`$PUBLISH_URL/0` to `/255`', 'the exit status of the run: 0 is a `success`, any other a `fail`', 'yes'],
    [
      '`$PUBLISH_URL/start`',
      '`start`: a run began; its end has a duration then',
      'no, it only begins a clock that does not run',
    ],
    ['`$PUBLISH_URL/log`', '`log`: recorded, and nothing else', 'no'],
  ],
)}
<p>The answers and refusals of each are with the <a href="/docs#pingSuccess">operations</a>.</p>`;
}

function fromJobs(): Html {
  return html`${heading(2, 'From a job')}
<p>The exit status, in one line. The semicolon matters: after <code>&amp;&amp;</code> a failure would send nothing, and would be found only at the deadline.</p>
${commands(`./backup.sh; curl -fsS -m 15 --retry 3 "$PUBLISH_URL/$?"`)}
<p>The exit status and the output. A text body becomes the <code>message</code> of the beat: its last ${characters} characters, because the error is at the end. A longer one is cut and never refused.</p>
${commands(`./backup.sh > backup.log 2>&1; status=$?
tail -c 4096 backup.log | curl -fsS -m 15 --retry 3 --data-binary @- "$PUBLISH_URL/$status"`)}
<p>The output alone, of a job whose every end is a success:</p>
${commands(`./backup.sh 2>&1 | curl -fsS -m 15 --retry 3 --data-binary @- "$PUBLISH_URL"`)}
<p>Do not write <code>$?</code> behind a pipe (<code>job | curl … "$PUBLISH_URL/$?"</code>): the shell fills it in before the job has run, with the status of the command before. <code>pipefail</code> does not change that.</p>
<p>The duration of a run, and an incident where it does not end within <code>maxRuntimeSeconds</code>. The run id is needed only where runs overlap:</p>
${commands(`run=$(date +%s)-$$
curl -fsS -m 15 --retry 3 "$PUBLISH_URL/start?rid=$run"
./backup.sh; curl -fsS -m 15 --retry 3 "$PUBLISH_URL/$??rid=$run"`)}`;
}

function fromCron(): Html {
  return html`${heading(2, 'From cron')}
<p>A crontab takes variables in lines of their own, above the jobs. In the line of a job a <code>%</code> must be written <code>\\%</code>.</p>
${code(`PUBLISH_URL=https://beatkeeper.example.com/ping/0d4b6a6e-7c1f-4f0a-9d0e-3b8f5a2c9e11
0 2 * * *  /usr/local/bin/backup.sh; curl -fsS -m 15 --retry 3 -o /dev/null "$PUBLISH_URL/$?"`)}
<ul>
<li><code>-f</code> makes a refusal an error of <code>curl</code>; <code>-sS</code> prints errors alone, so that cron sends mail about them alone.</li>
<li><code>-m 15</code>: an answer may take 10 seconds, and a shorter time would give up beats that are about to be taken. It holds for each try.</li>
<li><code>--retry 3</code> sends again after 503, 500, 429 and a time-out, and waits as long as <code>Retry-After</code> says. <code>--retry-connrefused</code> beside it does so too where nothing listens.</li>
</ul>`;
}

function sentAgain(): Html {
  return html`${heading(2, 'A beat that is sent twice')}
<p>Where the answer is lost, a retry may record the beat twice: two observations, of which each counts for <code>recoveryBeats</code>, for the beats in a minute and for <code>violationCount</code>. It makes no false alert. An <code>Idempotency-Key</code> makes them one. Take a new key for each beat: within ${IDEMPOTENCY_HOURS.beats * 60} minutes the same beat under the same key is not counted again, and another beat under it is a 409.</p>
${commands(`key=$(date +%s)-$$
curl -fsS -m 15 --retry 3 -H "Idempotency-Key: $key" "$PUBLISH_URL"`)}`;
}

function jsonBodies(): Html {
  return html`${heading(2, 'JSON')}
<p>A POST with <code>Content-Type: application/json</code> may state measurements, a time, a run and more: the fields are those of <a href="/docs#schema-Beat">Beat</a>.</p>
${commands(`curl -fsS -m 15 --retry 3 -H "Content-Type: application/json" -d '{"measurements":{"rows":1042},"message":"42 files"}' "$PUBLISH_URL"`)}
<p>Such a beat is checked as a whole, and refused with 400 where a field is wrong or unknown. A <code>message</code> in JSON that is longer than ${characters} characters is refused and not cut. A refused beat is not recorded, but a success or a failure <a href="/docs/deadlines#a-refused-beat-is-no-silence">still moves the deadline</a>; the answer says whether it did.</p>
<p>Not every JSON is a beat: other systems send theirs. A body counts as a beat if it is an object, and at least one of these is so:</p>
<ul>
<li>it has one of <code>measurements</code>, <code>observedAt</code>, <code>runId</code>, <code>exitStatus</code>;</li>
<li>its <code>status</code> is <code>success</code>, <code>start</code>, <code>fail</code>, <code>log</code> or <code>cancel</code>;</li>
<li>each of its fields is one of <code>status</code>, <code>message</code> and the four above.</li>
</ul>
<p>All other JSON is text: nothing in it is checked, and its last ${characters} characters are the message. At the bare address:</p>
${table(
  ['Body', 'Makes', 'Why'],
  JSON_EXAMPLES.map(({ body, makes, why }) => [
    `\`${body}\``,
    makes === 'refused' ? 'no beat' : `\`${makes}\``,
    why,
  ]),
)}`;
}

function otherSenders(): Html {
  return html`${heading(2, 'From Alertmanager, Grafana and others')}
<p>Their webhooks need no change: give them the publish address as URL. What kind of beat they make, <b>the address says, not the body</b>. At the bare address each of them is a success, with <code>"status":"firing"</code> too. So:</p>
<ul>
<li>a message that says that all is well, such as Alertmanager's Watchdog, goes to <code>$PUBLISH_URL</code>: its silence is what alerts;</li>
<li>a message that says that something failed goes to <code>$PUBLISH_URL/fail</code>. A message about the recovery would fail there too: turn it off (<code>send_resolved: false</code>; in Grafana “Disable resolved message”). Give that monitor neither interval nor schedule, so that no deadline runs. A beat to <code>$PUBLISH_URL</code> recovers its incident, or <a href="/docs#resolveIncident">somebody resolves it</a>.</li>
</ul>`;
}
