// What a development run says to people: log lines of the roles, and what to try when all of it works.

/** The fields of the line `ready` (docs/contract/development.md). */
export interface Ready {
  api: string;
  apis: string[];
  organizationId: string;
  projectId: string;
  credential: string;
  readCredential: string;
  ownerToken: string;
  tokens: { member: string; viewer: string; expired: string; otherOwner: string };
  databaseUrl: string;
  kubeconfig?: string;
}

/** A JSON log line as a person reads it: `api-1 warn  the message {"more":"fields"}`; any other line as it is. */
export function describeLogLine(name: string, line: string): string {
  try {
    const { level, msg, time: _time, role: _role, pid: _pid, err, ...fields } = JSON.parse(line);
    const more = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
    const error = err ? ` ${err.stack ?? err.message ?? JSON.stringify(err)}` : '';
    return `${name} ${String(level).padEnd(5)} ${msg ?? ''}${more}${error}`;
  } catch {
    return `${name} ${line}`;
  }
}

/** The address, a credential, the kubeconfig, and three commands to try. `toolsFolder`: kubectl, if not on PATH. */
export function describeReady(ready: Ready, toolsFolder?: string): string {
  const { api, credential, kubeconfig } = ready;
  const lines = [
    '',
    `Beatkeeper works at ${api} (the API's description: ${api}/docs).`,
    `  credential  ${credential}`,
    ...(kubeconfig ? [`  kubeconfig  ${kubeconfig}`] : []),
    '',
    'Try:',
    ...(kubeconfig ? clusterCommands(kubeconfig, toolsFolder) : apiCommands(ready)),
    '',
  ];
  return lines.join('\n');
}

function clusterCommands(kubeconfig: string, toolsFolder?: string): string[] {
  return [
    ...(toolsFolder ? [`  export PATH=$PATH:${toolsFolder}`] : []),
    `  export KUBECONFIG=${kubeconfig}`,
    '  kubectl apply -f examples/',
    `  curl "$(kubectl get secret queue-worker-beat -o jsonpath='{.data.url}' | base64 -d)"`,
    '  kubectl get monitors --watch',
  ];
}

function apiCommands({ api, credential }: Ready): string[] {
  const call = `curl -s -H 'Authorization: Bearer ${credential}'`;
  const body = '{"monitorId":"hello","name":"Hello","intervalSeconds":60,"graceSeconds":60}';
  return [
    `  ${call} -H 'Idempotency-Key: hello-1' -H 'Content-Type: application/json' -d '${body}' ${api}/v1/monitors`,
    '  curl <the publishUrl of that answer>',
    `  ${call} ${api}/v1/monitors/hello`,
  ];
}
