// `kubectl beat send`: one beat to the publish address of a Monitor.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type BeatAddress, openBeatAddress } from '../beat-address.ts';
import type { Command, Result } from '../command.ts';
import { isGiven, type Option, textOf, type Values } from '../option.ts';
import { Refusal } from '../refusal.ts';
import { findRelease, RELEASE_OPTION } from '../release.ts';
import { formatTime } from '../table.ts';
import { readPublishUrl } from './url.ts';

const OPTIONS: readonly Option[] = [
  { name: 'fail', text: 'the job failed' },
  { name: 'start', text: 'the job starts: the next success records its duration' },
  { name: 'log', text: 'only records the message' },
  { name: 'exit-status', value: '0 to 255', text: 'the exit code of the job: any but 0 is a fail' },
  { name: 'message', short: 'm', value: 'text', text: 'kept with the beat, at most 1,024 characters' },
  { name: 'run-id', value: 'id', text: 'ties the start and the end of one run together' },
  {
    name: 'measurement',
    value: 'key=number',
    isRepeatable: true,
    text: 'a number for the rules; repeatable',
  },
  RELEASE_OPTION,
];

export const SEND: Command = {
  name: 'send',
  operands: ['<monitor>'],
  summary: 'sends a beat: a success, if no option says otherwise',
  details: 'Reads the publish address from the Secret of the Monitor.',
  options: OPTIONS,
  async run({ cluster, operands: [name = ''], values, signal }) {
    const beat = readBeat(values);
    const monitor = await cluster.readMonitor(name);
    const publishUrl = await readPublishUrl(cluster, monitor);
    const stated = textOf(values, 'release');
    const address = await openBeatAddress(cluster, publishUrl, () =>
      findRelease(stated, cluster.api, [monitor]),
    );
    try {
      const accepted = await sendBeat(address, beat, signal);
      return describeBeat({ namespace: cluster.namespace, name, status: beat.status, ...accepted });
    } finally {
      await address.close();
    }
  },
};

interface Beat {
  status: 'success' | 'fail' | 'start' | 'log';
  message?: string;
  runId?: string;
  exitStatus?: number;
  measurements?: Record<string, number>;
}

export interface Accepted {
  sequence: number;
  receivedAt: string;
  nextDeadlineAt?: string;
  violations: { measurement: string; rule: string; bound: number | string; value: number }[];
}

/** The body of the beat. What the service refuses it says itself: only what is no beat at all is refused here. */
export function readBeat(values: Values): Beat {
  const kinds = (['fail', 'start', 'log'] as const).filter((kind) => isGiven(values, kind));
  if (kinds.length > 1) throw new Refusal(`A beat has one kind: state either --${kinds.join(' or --')}.`);
  const exitText = textOf(values, 'exit-status');
  const exitStatus = exitText === undefined ? undefined : Number(exitText);
  if (exitText !== undefined && !/^\d{1,3}$/.test(exitText)) {
    throw new Refusal(`--exit-status ${exitText} is no exit code: state a number from 0 to 255.`);
  }
  const measurements = readMeasurements(values.measurement);
  const message = textOf(values, 'message');
  const runId = textOf(values, 'run-id');
  return {
    status: kinds[0] ?? (exitStatus === undefined || exitStatus === 0 ? 'success' : 'fail'),
    ...(message === undefined ? {} : { message }),
    ...(runId === undefined ? {} : { runId }),
    ...(exitStatus === undefined ? {} : { exitStatus }),
    ...(measurements === undefined ? {} : { measurements }),
  };
}

function readMeasurements(given: Values[string]): Record<string, number> | undefined {
  if (!Array.isArray(given)) return undefined;
  return Object.fromEntries(
    (given as readonly string[]).map((text) => {
      const [, key, number] = /^([^=]+)=(.+)$/.exec(text) ?? [];
      if (key === undefined || !Number.isFinite(Number(number))) {
        throw new Refusal(`--measurement ${text} is no measurement: state one such as rows=42.`);
      }
      return [key, Number(number)] as const;
    }),
  );
}

const TRIES = 3;
const PAUSE_MS = 1_000;

/** Sent again under the same key, a beat counts once: so it is, where no answer came or the service could not take it. */
async function sendBeat(address: BeatAddress, beat: Beat, signal: AbortSignal): Promise<Accepted> {
  const key = randomUUID();
  for (let tries = 1; ; tries += 1) {
    const answer = await sendOnce(address, beat, key);
    if ('accepted' in answer) return answer.accepted;
    if (!answer.isPassing || tries === TRIES) throw new Refusal(address.fault() ?? answer.fault);
    await delay(PAUSE_MS * tries, undefined, { signal });
  }
}

type Answer = { accepted: Accepted } | { fault: string; isPassing: boolean };

async function sendOnce({ url, isTunnel }: BeatAddress, beat: Beat, key: string): Promise<Answer> {
  const { Agent, request } = await import('undici');
  const agent = new Agent(isTunnel ? { connect: { rejectUnauthorized: false } } : {});
  try {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headers: { 'content-type': 'application/json', accept: 'application/json', 'idempotency-key': key },
      body: JSON.stringify(beat),
      signal: AbortSignal.timeout(20_000),
    });
    const text = await body.text();
    if (statusCode === 200) return { accepted: JSON.parse(text) as Accepted };
    return {
      fault: `The beat was not accepted: ${detailOf(text, statusCode)}`,
      isPassing: statusCode >= 500,
    };
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? (error as Error).name;
    const host = new URL(url).host;
    return {
      fault: `The publish address does not answer at ${host} (${why}): check that it can be reached from here.`,
      isPassing: true,
    };
  } finally {
    await agent.destroy();
  }
}

function detailOf(text: string, status: number): string {
  try {
    const { detail, fieldErrors = [] } = JSON.parse(text) as {
      detail?: string;
      fieldErrors?: { path: string; message: string }[];
    };
    const told = detail ?? `the answer was ${status}.`;
    const more = fieldErrors.map(({ path, message }) => `${path}: ${message}`);
    return [told, ...more.filter((text) => !told.includes(text))].join(' ');
  } catch {
    return `the answer was ${status}.`;
  }
}

export interface SentBeat extends Accepted {
  namespace: string;
  name: string;
  status: Beat['status'];
}

export function describeBeat(beat: SentBeat): Result {
  const { namespace, name, status, sequence, receivedAt, nextDeadlineAt, violations } = beat;
  const next =
    nextDeadlineAt === undefined
      ? 'No deadline runs.'
      : `The next deadline is ${formatTime(nextDeadlineAt)}.`;
  const lines = [
    `Accepted as beat ${sequence} of ${name} (${status}) at ${formatTime(receivedAt)}. ${next}`,
    ...violations.map(
      ({ measurement, rule, bound, value }) =>
        `It breaks a rule: ${measurement} ${rule} ${bound}, and it is ${value}.`,
    ),
  ];
  const json = { namespace, name, status, sequence, receivedAt, nextDeadlineAt, violations };
  return { json, text: lines.join('\n') };
}
