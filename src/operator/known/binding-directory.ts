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

interface Kept {
  state: BindingState;
  untilMs: number;
}

const DEFAULT = 'default';

export class BindingDirectory {
  readonly #api: RestClient;
  /** By project, or `default`: the default endpoint is the organization's. */
  readonly #kept = new Map<string, Map<string, Kept>>();

  constructor(api: RestClient) {
    this.#api = api;
  }

  /** Throws ApiProblem. An answer about another binding than the one in question is not cached. */
  async find(question: BindingQuestion): Promise<BindingState> {
    const { binding } = question;
    if (binding.kind === 'disabled') return { binding };
    const { scope, key } = placeOf(question);
    const kept = this.#kept.get(scope)?.get(key);
    if (kept !== undefined && kept.untilMs > performance.now()) return kept.state;
    const state = await this.read(question);
    if (isDeepStrictEqual({ ...state.binding }, { ...binding })) {
      const ofScope = this.#kept.get(scope) ?? new Map<string, Kept>();
      this.#kept.set(scope, ofScope.set(key, { state, untilMs: performance.now() + KEPT_MS }));
    }
    return state;
  }

  /** Like `find`, without the cache. */
  async read({ projectId, monitorId, jurisdiction }: BindingQuestion): Promise<BindingState> {
    const request = { params: { monitorId }, query: { jurisdiction } };
    const { body } = await this.#api.call('getMonitorBinding', request, { project: projectId });
    return body;
  }

  /** Called when an endpoint of the project has changed, or the default endpoint. */
  clear({ projectId, isDefault }: { projectId: string | undefined; isDefault: boolean }): void {
    if (projectId !== undefined) this.#kept.delete(projectId);
    if (isDefault) this.#kept.delete(DEFAULT);
  }

  /** Drops expired entries, so that those of deleted monitors do not stay for ever. */
  sweep(): void {
    const nowMs = performance.now();
    for (const [scope, ofScope] of this.#kept) {
      for (const [key, { untilMs }] of ofScope) if (untilMs <= nowMs) ofScope.delete(key);
      if (ofScope.size === 0) this.#kept.delete(scope);
    }
  }
}

/** The default endpoint belongs to the organization, an alias to the project, an inline address to the monitor. */
function placeOf({ projectId, monitorId, binding }: BindingQuestion): { scope: string; key: string } {
  if (binding.kind === 'organization_default') return { scope: DEFAULT, key: '' };
  if (binding.kind === 'named') return { scope: projectId, key: `alias/${binding.alias}` };
  return { scope: projectId, key: `inline/${monitorId}` };
}
