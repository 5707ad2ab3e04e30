// Where callback bindings lead: read once for all monitors with the same binding, and cached for some seconds.
import { isDeepStrictEqual } from 'node:util';
import type { RestClient } from '../../client/rest-client.ts';
import type { OperationOutput } from '../../contract/operations/operations.ts';
import type { Binding } from '../../contract/resources/binding.ts';
import type { Jurisdiction } from '../../domain/monitor.ts';

const KEPT_MS = 20_000;

export type BindingState = OperationOutput<'getMonitorBinding'>;

export interface BindingQuestion {
  projectId: string;
  monitorId: string;
  jurisdiction?: Jurisdiction;
  binding: Binding;
}

export class BindingDirectory {
  readonly #api: RestClient;
  readonly #kept = new Map<string, { state: BindingState; untilMs: number }>();

  constructor(api: RestClient) {
    this.#api = api;
  }

  /** Throws ApiProblem. An answer about another binding than the one in question is not cached. */
  async find(question: BindingQuestion): Promise<BindingState> {
    const { binding } = question;
    if (binding.kind === 'disabled') return { binding };
    const key = keyOf(question);
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.untilMs > performance.now()) return kept.state;
    const state = await this.read(question);
    if (isDeepStrictEqual({ ...state.binding }, { ...binding })) {
      this.#kept.set(key, { state, untilMs: performance.now() + KEPT_MS });
    }
    return state;
  }

  /** Like `find`, without the cache. */
  async read({ projectId, monitorId, jurisdiction }: BindingQuestion): Promise<BindingState> {
    const request = { params: { monitorId }, query: { jurisdiction } };
    const { body } = await this.#api.call('getMonitorBinding', request, { project: projectId });
    return body;
  }

  /** Called when an endpoint or the default endpoint has changed. */
  clear(): void {
    this.#kept.clear();
  }

  /** Drops expired entries, so that those of deleted monitors do not stay for ever. */
  sweep(): void {
    const nowMs = performance.now();
    for (const [key, { untilMs }] of this.#kept) if (untilMs <= nowMs) this.#kept.delete(key);
  }
}

/** The default endpoint belongs to the organization, an alias to the project, an inline address to the monitor. */
function keyOf({ projectId, monitorId, binding }: BindingQuestion): string {
  if (binding.kind === 'organization_default') return 'default';
  if (binding.kind === 'named') return `${projectId}/alias/${binding.alias}`;
  return `${projectId}/inline/${monitorId}`;
}
