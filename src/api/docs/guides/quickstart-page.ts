// The page /docs/quickstart: from the first credential to an alert whose signature is verified. The blocks of class `run`
// are run as they stand by a test, one after the other in one shell.
import { readFile } from 'node:fs/promises';
import { code, commands, type Html, heading, html } from '../html.ts';
import { page } from '../page.ts';
import { SAMPLES_FOLDER } from '../webhooks-page.ts';

/** `publicUrl`: the address of this installation. */
export async function quickstartPage(publicUrl: string): Promise<string> {
  const receiver = async (file: string) => (await readFile(new URL(file, SAMPLES_FOLDER), 'utf8')).trimEnd();
  const [node, python] = await Promise.all([receiver('receiver.mjs'), receiver('receiver.py')]);
  return page(
    '/docs/quickstart',
    'Quickstart',
    html`<h1>Quickstart</h1>
<p>From nothing to an alert whose signature you have checked, in about ten minutes. You need a shell (bash or zsh), <code>curl</code>, and Node or Python. Run the blocks that are marked “Run:”, one after the other, in one terminal and in an empty folder: later blocks use what earlier ones have set. The first block comes before them and is for you to fill in.</p>
${theIdea()}
${signIn(publicUrl)}
${projectAndCredential()}
${endpoint()}
${receiverStep(node, python)}
${monitorAndBeat()}
${alert()}
${afterwards()}`,
  );
}

function theIdea(): Html {
  return html`${heading(2, 'The idea')}
<p>A <b>monitor</b> expects a <b>beat</b> at an interval. A job sends beats to the <b>publish address</b> of its monitor: one request, without a token. When a beat does not come in time, an <b>incident</b> opens, and an <b>alert</b> goes to a <b>callback endpoint</b>: a signed POST to a URL of yours. A <b>project</b> holds monitors and endpoints; an <b>API credential</b> acts in one project.</p>`;
}

function signIn(publicUrl: string): Html {
  return html`${heading(2, '1. Sign in as an owner')}
<p>Only an owner creates projects and credentials. An owner signs in with a token that an issuer has signed. Where to get one:</p>
<ul>
<li><b>On your machine.</b> In the folder of the Beatkeeper repository, in a terminal of its own: <code>npm ci &amp;&amp; npm run dev -- --no-cluster</code>. Wait for the line that begins with <code>ready</code>: it is JSON, <code>api</code> is the address, <code>ownerToken</code> the token, good for a day. Leave it running, and open a second terminal. (Without <code>-- --no-cluster</code> it runs a Kubernetes API server too, which nothing here needs. The line also has a <code>credential</code> of the project <code>default</code>: who is in a hurry sets <code>TOKEN</code> to it, goes on with step 3, and leaves the credential out when cleaning up.)</li>
<li><b>In a cluster</b> with the Helm chart, release and namespace <code>beatkeeper</code>: <code>kubectl create token beatkeeper-owner --namespace beatkeeper --audience beatkeeper</code> prints a token. <code>kubectl port-forward --namespace beatkeeper service/beatkeeper-api 8080:80</code> makes the API reachable at <code>http://127.0.0.1:8080</code>.</li>
<li><b>Elsewhere</b>: a session token of an identity provider that the installation trusts, with the role of an owner. Ask who runs it.</li>
</ul>
<p>Put both into variables, the address without a path and without a slash at its end. The first line has the address that this installation gives itself; where you reach it at another one (through a port-forward), write that. Write your token into the second line:</p>
${code(`export BASE=${publicUrl}\nexport OWNER_TOKEN='paste the token here'`)}
<p>Try it. The answer lists the projects; a 401 means that the token is not complete or no longer good.</p>
${commands(`curl -sS "$BASE/v1/projects" -H "Authorization: Bearer $OWNER_TOKEN"`)}
<p>The answers are JSON on one line, and the end of an answer is not the end of a line: your prompt stands right behind it.</p>`;
}

function projectAndCredential(): Html {
  return html`${heading(2, '2. Create a project and a credential')}
${commands(`curl -sS -X POST "$BASE/v1/projects" \\
  -H "Authorization: Bearer $OWNER_TOKEN" \\
  -H "Idempotency-Key: quickstart-project-$(date +%s)" \\
  -H "Content-Type: application/json" \\
  -d '{"name":"quickstart"}'`)}
<p>Each write has an <code>Idempotency-Key</code> that you choose. Who gets no answer sends the same request with the same key again, and nothing happens twice. A 409 here says that the project exists already: go on.</p>
<p>The credential belongs to the project that <code>Service-Project</code> names. Its secret is shown in this answer and never again:</p>
${commands(`curl -sS -X POST "$BASE/v1/credentials" \\
  -H "Authorization: Bearer $OWNER_TOKEN" \\
  -H "Service-Project: quickstart" \\
  -H "Idempotency-Key: quickstart-credential-$(date +%s)" \\
  -H "Content-Type: application/json" \\
  -d '{"name":"quickstart","preset":"manage"}' | tee credential.json

export TOKEN=$(grep -o 'bkc_[0-9a-f]*_[A-Za-z0-9_-]*' credential.json)
echo "TOKEN is $TOKEN"`)}
<p>From here on <code>$TOKEN</code> is enough: a credential names its project itself.</p>`;
}

function endpoint(): Html {
  return html`${heading(2, '3. Create a callback endpoint')}
<p>The answer has the signing secret, once. It is what your receiver checks alerts with.</p>
${commands(`curl -sS -X POST "$BASE/v1/callbacks" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Idempotency-Key: quickstart-endpoint-$(date +%s)" \\
  -H "Content-Type: application/json" \\
  -d '{"alias":"quickstart","url":"http://127.0.0.1:9123/alerts"}' | tee endpoint.json

export SECRET=$(grep -o 'sigcb_v1_[A-Za-z0-9_-]*' endpoint.json)
export ENDPOINT_ID=$(grep -o '"id":"[^"]*"' endpoint.json | cut -d '"' -f 4)
echo "SECRET is $SECRET of endpoint $ENDPOINT_ID"`)}
<p>A development run on your machine may send to your machine. Any other installation sends only to public <code>https</code> addresses (400 <code>service.callback_destination_rejected</code>, or 400 for plain http): use an address there at which the receiver of the next step is reachable. Whoever runs the installation can allow private ones.</p>`;
}

function receiverStep(node: string, python: string): Html {
  return html`${heading(2, '4. Start a receiver that verifies signatures')}
<p>It answers 204 when the signature is right and 401 when it is not. In Node:</p>
${commands(`cat > receiver.mjs <<'END'
${node}
END
node receiver.mjs > alerts.log 2>&1 &
export RECEIVER=$!`)}
<details><summary>Or in Python, in place of the block above</summary>
${code(`cat > receiver.py <<'END'
${python}
END
python3 receiver.py > alerts.log 2>&1 &
export RECEIVER=$!`)}
</details>
<p>Send a test. <code>"delivered":true</code> says that your receiver took it, and <code>alerts.log</code> says that the signature was right. (If the first line waits for ever, <code>cat alerts.log</code> says why the receiver did not start.)</p>
${commands(`until grep -s listening alerts.log; do sleep 1; done
curl -sS -X POST "$BASE/v1/callbacks/$ENDPOINT_ID/test" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Idempotency-Key: quickstart-test-$(date +%s)"
echo
grep 'verified: callback.test' alerts.log`)}
<p><a href="/docs/webhooks">Webhooks</a> shows the verification alone, in four languages.</p>`;
}

function monitorAndBeat(): Html {
  return html`${heading(2, '5. Create a monitor and send its first beat')}
<p>A beat is expected every 60 seconds, and may be 60 seconds late: the shortest that there is. The binding <code>callback</code> says where the alerts of this monitor go.</p>
${commands(`curl -sS -X POST "$BASE/v1/monitors" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Idempotency-Key: quickstart-monitor-$(date +%s)" \\
  -H "Content-Type: application/json" \\
  -d '{"monitorId":"nightly-backup","name":"Nightly backup","intervalSeconds":60,"graceSeconds":60,"callback":{"kind":"named","alias":"quickstart"}}' | tee monitor.json

export PUBLISH_URL=$(grep -o '"publishUrl":"[^"]*"' monitor.json | cut -d '"' -f 4)
echo "PUBLISH_URL is $PUBLISH_URL"`)}
<p>No deadline runs before the first beat. This is what a job does when it has finished; <code>OK</code> means that the beat is on disk:</p>
${commands('curl -fsS "$PUBLISH_URL"')}
<p>(If you reach the installation through a port-forward, the publish address may not be reachable from your machine. Then once: <code>export PUBLISH_URL="$BASE/ping/\${PUBLISH_URL##*/}"</code>.)</p>
<p>The monitor is <code>up</code>, and <code>nextDeadlineAt</code> says by when the next beat must have come:</p>
${commands(`curl -sS "$BASE/v1/monitors/nightly-backup" -H "Authorization: Bearer $TOKEN" \\
  | grep -oE '"health":"[a-z]*"|"nextDeadlineAt":"[^"]*"'`)}`;
}

function alert(): Html {
  return html`${heading(2, '6. Miss the deadline, and receive the alert')}
<p>Send nothing, and wait: two minutes after the beat the incident opens. This ends when the alert has come and its signature was right. (If it takes longer than three minutes: <code>cat alerts.log</code>, and the deliveries below say what happened.)</p>
${commands(`until grep 'verified: incident.opened' alerts.log; do sleep 1; done`)}
<p>The incident, and what was sent about it:</p>
${commands(`curl -sS "$BASE/v1/incidents?state=open" -H "Authorization: Bearer $TOKEN"
echo
curl -sS "$BASE/v1/deliveries" -H "Authorization: Bearer $TOKEN"`)}
<p>The next beat recovers it, and that is an alert too:</p>
${commands(`curl -fsS "$PUBLISH_URL"
until grep 'verified: incident.recovered' alerts.log; do sleep 1; done`)}`;
}

function afterwards(): Html {
  return html`${heading(2, '7. Clean up')}
<p>A change of a resource names in <code>If-Match</code> the version that you have read: its <code>ETag</code>. So nobody overwrites what somebody else has changed meanwhile.</p>
${commands(`etag_of() { curl -sS -o /dev/null -D - "$@" | tr -d '\\r' | sed -n 's/^[Ee][Tt][Aa][Gg]: //p'; }
delete() { curl -sS -X DELETE "$@" -H "If-Match: $(etag_of "$@")" -w "%{http_code} deleted $1\\n"; }
delete "$BASE/v1/monitors/nightly-backup" -H "Authorization: Bearer $TOKEN"
delete "$BASE/v1/callbacks/$ENDPOINT_ID" -H "Authorization: Bearer $TOKEN"
kill "$RECEIVER"`)}
<p>The credential is revoked last, by the owner:</p>
${commands(`export CREDENTIAL_ID=$(grep -o '"credentialId":"[^"]*"' credential.json | cut -d '"' -f 4)
delete "$BASE/v1/credentials/$CREDENTIAL_ID" -H "Authorization: Bearer $OWNER_TOKEN" -H "Service-Project: quickstart"`)}
<p>The project stays, empty: no operation deletes a project. Who follows this page again uses it again.</p>
${heading(2, 'Where to go on')}
<ul>
<li>In a cron job: <code>backup.sh; curl -fsS -m 15 --retry 3 "$PUBLISH_URL/$?"</code> reports the exit status, and a failure opens an incident at once. How to send the output with it, what goes into the crontab, and JSON: <a href="/docs/beats">Beats</a>.</li>
<li>A schedule in place of an interval, learned intervals, late and missed beats: <a href="/docs/deadlines">Deadlines</a>.</li>
<li>What <code>up</code>, <code>late</code> and <code>down</code> mean, and the life of an incident: <a href="/docs/states">States</a>.</li>
<li>One endpoint for all monitors that name none: an owner sets it with <a href="/docs#setDefaultCallback">PUT /v1/callbacks/default</a>.</li>
<li>An answer that is an error names its page: <a href="/docs/problems">Problems</a>.</li>
</ul>`;
}
