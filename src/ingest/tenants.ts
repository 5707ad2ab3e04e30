// What beats need of projects and organizations: plan, service state, names. All addresses of a project share one object,
// which is read again every 2.5 s while one of them may serve from the cache: a change reaches beats within five seconds
// (docs/contract/organization.md), and no beat waits for it. While the database is away the old facts serve.
import type { FindPlan, Plan } from '../domain/plan.ts';
import { findTenants } from '../store/beats/publish-addresses.ts';
import type { Tenant } from '../store/monitors/monitor-record.ts';
import type { Queryable } from '../store/postgres/pool.ts';

/** `plan`: of the organization, in the catalogue of the installation. */
export interface BeatTenant extends Tenant {
  plan: Plan;
}

export interface TenantsOptions {
  db: Queryable;
  findPlan: FindPlan;
  /** How long an address serves from the cache. */
  keptMs: number;
  /** Called for each failed statement; the next round asks again. */
  onError?: (error: unknown) => void;
  /** Monotonic clock in ms. */
  now: () => number;
}

interface Kept {
  tenant: BeatTenant;
  /** When the statement that read it began. */
  readAt: number;
  /** When the last address of the project was loaded. */
  loadedAt: number;
}

const REFRESH_MS = 2_500;
/** Projects in one statement: few, so that reading the answer does not hold up the event loop. */
const REFRESH_SIZE = 1_000;

export class Tenants {
  readonly #options: TenantsOptions;
  readonly #kept = new Map<string, Kept>();
  #timer: NodeJS.Timeout | undefined;
  #isRefreshing = false;

  constructor(options: TenantsOptions) {
    this.#options = options;
  }

  /** Begins to read again what is kept. */
  start(): void {
    this.#timer = setInterval(() => void this.refresh(), REFRESH_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The shared object of the project of an address that was loaded. `readAt`: when the statement that read it began. */
  share(projectId: string, read: Tenant, readAt: number): BeatTenant {
    const tenant = this.#withPlan(read);
    const kept = this.#kept.get(projectId) ?? { tenant, readAt, loadedAt: 0 };
    kept.loadedAt = this.#options.now();
    this.#kept.set(projectId, kept);
    update(kept, tenant, readAt);
    return kept.tenant;
  }

  /** Reads all again, one round at a time. Never rejects. */
  async refresh(): Promise<void> {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    try {
      const projectIds = this.#listInUse();
      for (let from = 0; from < projectIds.length; from += REFRESH_SIZE) {
        await this.#read(projectIds.slice(from, from + REFRESH_SIZE));
      }
    } catch (error) {
      this.#options.onError?.(error);
    } finally {
      this.#isRefreshing = false;
    }
  }

  /** Forgets projects without an address that may serve from the cache: their next beat reads them. */
  #listInUse(): string[] {
    const { now, keptMs } = this.#options;
    for (const [projectId, { loadedAt }] of this.#kept) {
      if (now() - loadedAt > keptMs) this.#kept.delete(projectId);
    }
    return [...this.#kept.keys()];
  }

  async #read(projectIds: readonly string[]): Promise<void> {
    const readAt = this.#options.now();
    for (const { projectId, ...tenant } of await findTenants(this.#options.db, projectIds)) {
      const kept = this.#kept.get(projectId);
      if (kept) update(kept, this.#withPlan(tenant), readAt);
    }
  }

  #withPlan(tenant: Tenant): BeatTenant {
    return { ...tenant, plan: this.#options.findPlan(tenant.planId) };
  }
}

/** Of two statements the one that began later decides: what is kept is never older than the last round. */
function update(kept: Kept, tenant: BeatTenant, readAt: number): void {
  if (readAt < kept.readAt) return;
  Object.assign(kept.tenant, tenant);
  kept.readAt = readAt;
}
