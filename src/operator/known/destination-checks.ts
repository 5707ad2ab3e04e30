// Asks the API whether callbacks may go to the addresses of endpoints, beside the passes: a DNS server that never answers
// holds no worker. A project has one call at a time, and all together have two; projects take turns.
import { isGone, isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import type { OperationOutput } from '../../contract/operations/operations.ts';
import { MAX_CHECKED } from '../../contract/resources/destination-check.ts';
import { Controller, type Reconcile, type ReconcileResult } from '../../kube/controller.ts';
import type { KubeLog } from '../../kube/kube-log.ts';

/** The API waits for DNS before it answers. */
const TIMEOUT_MS = 25_000;

type Checked = OperationOutput<'checkDestinations'>['items'][number];
export type DestinationAnswer = Pick<Checked, 'verdict' | 'detail'>;

export interface DestinationQuestion {
  projectId: string;
  endpointId: string;
  /** The address in question, as one object as long as it is the same: an answer is for all questions about it. */
  about: object;
  /** When to ask at the latest, ms of the process's clock: before that it goes with others of its project. */
  dueAtMs: number;
  /** Called once. `unknown` also where the API refuses the whole call. */
  answered(answer: DestinationAnswer): void;
}

export class DestinationChecks {
  readonly #api: Pick<RestClient, 'call'>;
  /** By project and endpoint. Each is asked when it is due, at the latest, so that deleted objects leave none. */
  readonly #questions = new Map<string, Map<string, DestinationQuestion>>();
  readonly #controller: Controller;

  constructor({ api, log }: { api: Pick<RestClient, 'call'>; log: KubeLog }) {
    this.#api = api;
    const reconcile: Reconcile = async (projectId, { signal }) => await this.#check(projectId, signal);
    this.#controller = new Controller({ name: 'destination-checks', concurrency: 2, reconcile, log });
  }

  ask(question: DestinationQuestion): void {
    const { projectId, endpointId, dueAtMs } = question;
    const ofProject = this.#questions.get(projectId) ?? new Map<string, DestinationQuestion>();
    this.#questions.set(projectId, ofProject.set(endpointId, question));
    this.#controller.start();
    const { queue } = this.#controller;
    // A call that failed is repeated after its backoff.
    if (queue.failures(projectId) === 0) queue.addAfter(projectId, dueAtMs - performance.now());
  }

  /** Ends also the calls that are under way. */
  async stop(): Promise<unknown> {
    return await this.#controller.stop(0);
  }

  async #check(projectId: string, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    const ofProject = this.#questions.get(projectId);
    if (ofProject === undefined) return undefined;
    const asked = [...ofProject.values()].toSorted((a, b) => a.dueAtMs - b.dueAtMs).slice(0, MAX_CHECKED);
    if (asked[0] !== undefined && asked[0].dueAtMs <= performance.now()) {
      const answers = await this.#call(projectId, asked, signal);
      if (signal.aborted) return undefined;
      for (const { endpointId, about, answered } of asked) {
        // The endpoint may have another address by now, with a question of its own.
        if (ofProject.get(endpointId)?.about === about) ofProject.delete(endpointId);
        answered(answers.get(endpointId) ?? { verdict: 'unknown' });
      }
    }
    if (ofProject.size === 0) return void this.#questions.delete(projectId);
    const nextMs = [...ofProject.values()].reduce(
      (least, { dueAtMs }) => Math.min(least, dueAtMs),
      Number.POSITIVE_INFINITY,
    );
    return { requeueAfterMs: nextMs - performance.now() };
  }

  /** By endpoint; nothing where the API refuses the call. Throws ApiProblem where it gives no answer. */
  async #call(
    project: string,
    asked: readonly DestinationQuestion[],
    signal: AbortSignal,
  ): Promise<Map<string, Checked>> {
    const body = { endpointIds: asked.map(({ endpointId }) => endpointId) };
    try {
      const options = { project, signal, timeoutMs: TIMEOUT_MS };
      const answer = await this.#api.call('checkDestinations', { body }, options);
      return new Map(answer.body.items.map((item) => [item.endpointId, item]));
    } catch (error) {
      if (!signal.aborted && !isProblem(error, 'permanent') && !isGone(error)) throw error;
      return new Map();
    }
  }
}
