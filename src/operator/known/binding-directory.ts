// Where bindings lead now, asked once for all monitors that have the same binding, and kept for some seconds.
import { isDeepStrictEqual } from 'node:util';
import type { RestClient } from '../../client/rest-client.ts';
import type { Binding } from '../../contract/resources/binding.ts';
import type { Jurisdiction } from '../../domain/monitor.ts';
import type { BindingState } from '../kinds/monitor/monitor-conditions.ts';

const KEPT_MS = 20_000;

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

  /** Throws ApiProblem. What the API says of another binding than the one asked about is not kept. */
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

  /** As `find`, always asked. */
  async read({ projectId, monitorId, jurisdiction }: BindingQuestion): Promise<BindingState> {
    const request = { params: { monitorId }, query: { jurisdiction } };
    const { body } = await this.#api.call('getMonitorBinding', request, { project: projectId });
    return body;
  }

  /** An endpoint or the default has changed. */
  clear(): void {
    this.#kept.clear();
  }

  /** Drops what is over, so that bindings of monitors that are gone are not kept for ever. */
  sweep(): void {
    const nowMs = performance.now();
    for (const [key, { untilMs }] of this.#kept) if (untilMs <= nowMs) this.#kept.delete(key);
  }
}

/** The default endpoint is the organization's, an alias the project's, an inline address the monitor's own. */
function keyOf({ projectId, monitorId, binding }: BindingQuestion): string {
  if (binding.kind === 'organization_default') return 'default';
  if (binding.kind === 'named') return `${projectId}/alias/${binding.alias}`;
  return `${projectId}/inline/${monitorId}`;
}
