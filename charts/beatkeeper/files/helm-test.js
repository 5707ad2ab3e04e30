// Run by `helm test` in the service's own image: a monitor made from YAML gets its address, is beaten, and shows it,
// on the object (the operator, the status feed) and in /v1 (sign-in by the cluster's issuer). Leaves nothing behind.
import { existsSync, readFileSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';

const { MONITOR, MONITOR_NAMESPACE, API_URL, BEATKEEPER_TOKEN_FILE: session } = process.env;
const apiCa = process.env.BEATKEEPER_API_CA_FILE;
if (apiCa && existsSync(apiCa))
  setDefaultCACertificates([...getCACertificates('default'), readFileSync(apiCa, 'utf8')]);
const account = '/var/run/secrets/kubernetes.io/serviceaccount';
const kube = `https://${process.env.KUBERNETES_SERVICE_HOST}:${process.env.KUBERNETES_SERVICE_PORT}`;
const monitors = `/apis/beatkeeper.dev/v1alpha1/namespaces/${MONITOR_NAMESPACE}/monitors/${MONITOR}`;

const say = (line) => process.stdout.write(`${line}\n`);

async function call(url, token, init = {}) {
  const response = await fetch(url, {
    ...init,
    headers: { ...init.headers, authorization: `Bearer ${readFileSync(token, 'utf8').trim()}` },
    signal: AbortSignal.timeout(10_000),
  });
  const text = await response.text();
  if (response.status === 404) return undefined;
  if (!response.ok) throw new Error(`${init.method ?? 'GET'} ${url}: ${response.status} ${text}`);
  return text === '' ? {} : JSON.parse(text);
}
const cluster = (path, init) => call(kube + path, `${account}/token`, init);

async function until(what, seconds, look) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const { done, seen } = await look();
    if (done !== undefined && done !== false) {
      say(`ok: ${what}`);
      return done;
    }
    if (Date.now() > end)
      throw new Error(`not within ${seconds} s: ${what}. Last seen: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
const condition = (object, type) => object?.status?.conditions?.find((each) => each.type === type);

async function remove() {
  await cluster(monitors, { method: 'DELETE' });
  await until('the monitor is gone', 30, async () => {
    const object = await cluster(monitors);
    return { done: object === undefined, seen: object?.metadata };
  });
}

/** Whose token this is, as it says itself: none of it is a secret. */
function describeToken(file) {
  const [, payload] = readFileSync(file, 'utf8').split('.');
  const { iss, aud, sub } = JSON.parse(Buffer.from(payload, 'base64url').toString());
  return `a token of ${sub} by the issuer ${iss} for the audience ${aud}`;
}

/** Retries what may be a start, and fails at once where the token itself is refused. */
async function signIn() {
  await until('api takes a token of this cluster', 60, async () => {
    const headers = { authorization: `Bearer ${readFileSync(session, 'utf8').trim()}` };
    const init = { headers, signal: AbortSignal.timeout(10_000) };
    const none = (error) => ({ text: () => String(error) });
    const answer = await fetch(`${API_URL}/v1/projects?limit=1`, init).catch(none);
    const seen = await answer.text();
    if (answer.status === 401 || answer.status === 403) {
      const why = 'Compare it with auth.clusterIssuer, and with the log of the operator.';
      throw new Error(`api refuses ${describeToken(session)}: ${seen} ${why}`);
    }
    return { done: answer.ok, seen };
  });
}

await signIn();
await remove();
try {
  const spec = {
    name: 'helm test',
    intervalSeconds: 3600,
    graceSeconds: 60,
    callback: { kind: 'disabled' },
    deletionPolicy: 'Delete',
  };
  await cluster(`${monitors}?fieldManager=helm-test`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/apply-patch+yaml' },
    body: JSON.stringify({
      apiVersion: 'beatkeeper.dev/v1alpha1',
      kind: 'Monitor',
      metadata: { name: MONITOR },
      spec,
    }),
  });
  const ready = await until('the monitor is ready', 60, async () => {
    const object = await cluster(monitors);
    const synced = condition(object, 'Synced');
    if (synced?.reason === 'Unauthorized') throw new Error(`the operator cannot sign in: ${synced.message}`);
    return { done: condition(object, 'Ready')?.status === 'True' && object, seen: object?.status };
  });
  const secret = await cluster(`/api/v1/namespaces/${MONITOR_NAMESPACE}/secrets/${MONITOR}-beat`);
  const url = new URL(Buffer.from(secret?.data?.url ?? '', 'base64').toString());
  // publicUrl may have a path, which an ingress takes off: only the end of the address is api's own.
  const address = `${API_URL}/ping/${url.pathname.split('/').at(-1)}`;
  const beat = await fetch(address, { method: 'POST', signal: AbortSignal.timeout(10_000) });
  if (!beat.ok) throw new Error(`the beat was refused: ${beat.status} ${await beat.text()}`);
  say('ok: the beat is accepted');
  await until('the object shows the beat', 30, async () => {
    const object = await cluster(monitors);
    return { done: object?.status?.health === 'up' && object.status.lastBeatAt, seen: object?.status };
  });
  const namespace = await cluster(`/api/v1/namespaces/${MONITOR_NAMESPACE}`);
  const annotated =
    process.env.ALL_NAMESPACES === 'true' && namespace?.metadata?.annotations?.['beatkeeper.dev/project'];
  const record = await call(`${API_URL}/v1/monitors/${ready.status.monitorId}`, session, {
    headers: { 'service-project': annotated || MONITOR_NAMESPACE },
  });
  if (record?.status?.health !== 'up') throw new Error(`/v1 has it otherwise: ${JSON.stringify(record)}`);
  say('ok: /v1 shows the beat');
} catch (error) {
  // Before the end: what cannot be removed either must not hide it.
  say(`failed: ${error.message}`);
  throw error;
} finally {
  await remove();
}
