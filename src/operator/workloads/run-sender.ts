// Sends the beats of Jobs to the publish address of their monitor, each once: by its key within an hour, and after that by what
// the monitor has recorded. It retries nothing itself.
import { type ApiProblem, isGone, isProblem } from '../../client/api-problem.ts';
import type { Observation } from '../../contract/resources/beat.ts';
import type { Monitor } from '../../contract/resources/monitor.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { OperatorContext } from '../operator-context.ts';
import { problemText } from '../resources/problem-text.ts';
import { withLog } from './failed-log.ts';
import { byTime, isAtOrAfter } from './job-state.ts';
import type { RunBeat, ToldBefore } from './run-beats.ts';
import { runsKeyOf } from './workload-of.ts';

/** The monitor that the beats are for. */
export interface BeatTarget {
  monitor: MonitorObject;
  projectId: string;
  monitorId: string;
  signal: AbortSignal;
  /** The logs of failed containers are waited for until then, ms of the process's clock. */
  logUntilMs: number;
}

/** `refused`: the API will refuse this beat again. */
export type Sent = { state: 'sent' } | { state: 'refused'; why: string };

/** A key of a beat counts for an hour at the API. */
const KEY_MS = 50 * 60_000;
const PAGE = 100;
const MAX_PAGES = 20;

export class RunSender {
  readonly #context: OperatorContext;
  /** The last part of publish addresses, by UID of the Monitor. Never logged. */
  readonly #addresses = new Map<string, { monitorId: string; address: string }>();

  constructor(context: OperatorContext) {
    this.#context = context;
  }

  /** Throws ApiProblem where the beat is to be sent again later. */
  async send(target: BeatTarget, beat: RunBeat): Promise<Sent> {
    const isOld = Date.now() - Date.parse(beat.body.observedAt) > KEY_MS;
    const told = beat.told ?? (isOld ? itself(beat) : undefined);
    if (told !== undefined && (await this.#isRecorded(target, told).catch(ofGone))) return { state: 'sent' };
    const { idempotencyKey, body, failed } = beat;
    const { namespace = '' } = target.monitor.metadata;
    const { kube, log, settings } = this.#context;
    const patienceMs = target.logUntilMs - performance.now();
    const message =
      failed === undefined || !settings.workloadLogs || patienceMs <= 0
        ? body.message
        : await withLog({ kube, log }, body.message, { namespace, failed, patienceMs });
    const whole = { idempotencyKey, body: { ...body, message } };
    try {
      await this.#post(target, whole, await this.#addressOf(target));
      return { state: 'sent' };
    } catch (error) {
      if (!isGone(error)) return settle(error);
      // The address was rotated.
      this.forget(target.monitor);
    }
    try {
      await this.#post(target, whole, await this.#addressOf(target));
      return { state: 'sent' };
    } catch (error) {
      return settle(error);
    }
  }

  forget({ metadata }: MonitorObject): void {
    this.#addresses.delete(metadata.uid ?? '');
  }

  async #post(
    { monitor, signal }: BeatTarget,
    beat: { idempotencyKey: string; body: object },
    address: string,
  ) {
    const correlationId = `workload/${monitor.metadata.uid}`;
    await this.#context.api.sendBeat(address, beat, { correlationId, signal });
  }

  async #addressOf({ monitor, projectId: project, monitorId, signal }: BeatTarget): Promise<string> {
    const { uid = '' } = monitor.metadata;
    const known = this.#addresses.get(uid);
    if (known?.monitorId === monitorId) return known.address;
    const request = { params: { monitorId }, query: { jurisdiction: monitor.spec.jurisdiction } };
    const { body } = await this.#context.api.call('getMonitor', request, { project, signal });
    if (runsKeyOf(monitor) !== undefined) await this.#takeBack(body, { project, signal });
    const address = new URL(body.publishUrl ?? '').pathname.split('/').at(-1) ?? '';
    this.#addresses.set(uid, { monitorId, address });
    return address;
  }

  /** A person has taken the monitor from an operator that was gone, and it is back. */
  async #takeBack(
    { monitorId, jurisdiction, beatenBy }: Monitor,
    options: { project: string; signal: AbortSignal },
  ): Promise<void> {
    const operatorId = await this.#context.operatorName.id();
    if (beatenBy === operatorId) return;
    const request = { params: { monitorId }, query: { jurisdiction }, body: { operatorId } };
    await this.#context.api.call('setMonitorBeatenBy', request, options);
  }

  async #isRecorded(
    { monitor, projectId: project, monitorId, signal }: BeatTarget,
    told: ToldBefore,
  ): Promise<boolean> {
    // The clocks of the cluster and of the service differ.
    const since = new Date(Date.parse(told.since) - 600_000).toISOString();
    const { jurisdiction } = monitor.spec;
    let cursor: string | undefined;
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const query = { since, limit: PAGE, cursor, jurisdiction };
      const request = { params: { monitorId }, query };
      const { body: found } = await this.#context.api.call('listObservations', request, { project, signal });
      if (found.items.some((one) => isTold(one, told))) return true;
      cursor = found.nextCursor;
      if (cursor === undefined) return false;
    }
    return false;
  }
}

/** An attempt of longer ago may have been recorded: its key holds no more. */
function itself({ body: { status, runId, observedAt: since } }: RunBeat): ToldBefore {
  return { since, kinds: [status === 'cancel' ? 'log' : status], runId };
}

/** Of a monitor that is not there nothing is recorded. Sending says the rest. */
function ofGone(error: unknown): false {
  if (isGone(error)) return false;
  throw error;
}

function isTold({ kind, runId, observedAt = '' }: Observation, told: ToldBefore): boolean {
  if (!told.kinds.includes(kind) || (told.runId !== undefined && told.runId !== runId)) return false;
  if (told.observedAt !== undefined && byTime(observedAt, told.observedAt) !== 0) return false;
  return isAtOrAfter(observedAt, told.observedFrom ?? '');
}

function settle(error: unknown): Sent {
  if (!isProblem(error, 'permanent')) throw error;
  return isSentBefore(error) ? { state: 'sent' } : { state: 'refused', why: problemText(error) };
}

/** Another attempt, in other words, has reached the monitor: that of a former leader, or one whose answer was lost. */
function isSentBefore({ code }: ApiProblem): boolean {
  return code === 'service.idempotency_conflict';
}
