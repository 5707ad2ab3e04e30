// `kubectl beat replay`: what a Rule would have opened over the last 30 days, from its status. It changes the Rule only if
// it is asked to run the replay.
import { setTimeout as delay } from 'node:timers/promises';
import { REPLAY_ANNOTATION } from '../../contract/crd/custom-resources.ts';
import type { Cluster } from '../cluster.ts';
import type { Call, Command, Result } from '../command.ts';
import { readDurationSeconds } from '../duration.ts';
import { conditionOf, RULES, type RuleObject } from '../objects.ts';
import { isGiven, textOf } from '../option.ts';
import { attempt, Refusal } from '../refusal.ts';
import { formatTable, formatTime } from '../table.ts';

const POLL_MS = 1_000;

export const REPLAY: Command = {
  name: 'replay',
  operands: ['<rule>'],
  summary: 'what a Rule would have opened over the last 30 days',
  details: 'Reads status.replay of the Rule, and waits for a replay that runs.',
  options: [
    {
      name: 'run',
      text: 'replays it now: sets rollout to Replay, which changes nothing on Monitors, and takes nothing from those that have it',
    },
    { name: 'timeout', value: 'duration', text: 'how long to wait for the end; default: 10m' },
  ],
  async run(call) {
    const { cluster, operands, values } = call;
    const [name = ''] = operands;
    const timeoutMs = readDurationSeconds('timeout', textOf(values, 'timeout') ?? '10m') * 1_000;
    const rule = await readRule(cluster, name);
    const isAsked = isGiven(values, 'run');
    if (!isAsked && rule.spec.rollout !== 'Replay' && rule.status?.replay === undefined) {
      throw new Refusal(
        `The Rule ${name} has not been replayed, its rollout is Apply: \`kubectl beat replay ${name} --run\` sets it to Replay. The Monitors that have its rule keep it, and nobody enforces it until rollout is Apply again.`,
      );
    }
    const current = isAsked ? await requestReplay(cluster, rule) : rule;
    if (current.spec.rollout !== 'Replay') return describeReplay(current);
    return describeReplay(await waitForReplay(call, current, timeoutMs));
  },
};

async function readRule({ client, namespace }: Cluster, name: string): Promise<RuleObject> {
  const attempted = {
    what: `read the Rule ${name} in the namespace ${namespace}`,
    notFound: `There is no Rule ${name} in the namespace ${namespace}: \`kubectl get brule -n ${namespace}\` lists them.`,
  };
  return await attempt(attempted, () => client.get(RULES, { namespace, name }));
}

/** A new value of the annotation replays it once more, also where rollout is Replay already. */
async function requestReplay({ client, namespace }: Cluster, rule: RuleObject): Promise<RuleObject> {
  const { name, uid } = rule.metadata;
  const metadata = { uid, annotations: { [REPLAY_ANNOTATION]: new Date().toISOString() } };
  const attempted = { what: `change the Rule ${name} in the namespace ${namespace}` };
  return await attempt(attempted, () =>
    client.mergePatch(
      RULES,
      { namespace, name },
      { metadata, spec: { rollout: 'Replay' } },
      { fieldManager: 'kubectl-beat' },
    ),
  );
}

async function waitForReplay(call: Call, rule: RuleObject, timeoutMs: number): Promise<RuleObject> {
  const endMs = performance.now() + timeoutMs;
  const { name } = rule.metadata;
  let shown = '';
  for (let last = rule; ; last = await readRule(call.cluster, name)) {
    if (isReplayed(last)) return last;
    const ready = conditionOf(last, 'Ready');
    if (ready?.reason === 'NoMonitors' && ready.observedGeneration === last.metadata.generation) {
      throw new Refusal(`The Rule ${name} matches no Monitor: correct its selector or its monitorRef.`);
    }
    const progress = last.status?.replay?.progress ?? '';
    if (performance.now() > endMs) {
      throw new Refusal(
        `The replay of the Rule ${name} has not ended in time (${progress || 'it has not begun'}): wait longer with --timeout, or see \`kubectl describe brule ${name}\`.`,
      );
    }
    if (progress !== '' && progress !== shown) call.note(progress);
    shown = progress;
    await delay(POLL_MS, undefined, { signal: call.signal });
  }
}

/** Whether the status is about this generation and this value of the annotation, and the replay has ended. */
function isReplayed({ metadata, status }: RuleObject): boolean {
  const replay = status?.replay;
  const request = metadata.annotations?.[REPLAY_ANNOTATION];
  return (
    replay?.finishedAt !== undefined &&
    replay.generation === metadata.generation &&
    (replay.request ?? '') === (request ?? '')
  );
}

export function describeReplay({ metadata, status }: RuleObject): Result {
  const { namespace, name } = metadata;
  const replay = status?.replay;
  if (replay === undefined) throw new Refusal(`The Rule ${name} has no replay to show: run one with --run.`);
  const { cursor: _cursor, ...json } = replay;
  const head = ['MONITOR', 'CURRENT', 'PROPOSED', 'ADDED', 'REMOVED', 'REFUSED'];
  type Numbers = typeof replay.total;
  const rowOf = (title: string, numbers: Numbers) => [
    title,
    ...[
      numbers.currentIncidents,
      numbers.proposedIncidents,
      numbers.added,
      numbers.removed,
      numbers.refusedCount,
    ].map(String),
  ];
  const rows = [...replay.monitors.map((one) => rowOf(one.name, one)), rowOf('all', replay.total)];
  const isOld = replay.generation !== metadata.generation;
  const lines = [
    formatTable([head, ...rows]),
    '',
    `Replayed ${replay.replayed} of ${replay.matched} Monitors, from ${formatTime(replay.since)} to ${formatTime(replay.until)}.`,
    ...(replay.omissions ?? []).map(
      ({ count, monitor, message }) => `Left out: ${count}, such as ${monitor}. ${message}`,
    ),
    ...(isOld ? ['The Rule has changed since then: --run replays it as it is now.'] : []),
  ];
  return { json: { namespace, name, current: !isOld, ...json }, text: lines.join('\n') };
}
