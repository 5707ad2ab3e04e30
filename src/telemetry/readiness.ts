// Whether the process is ready for work, by named checks of its role, and whether only a restart can help, by vital
// checks. Once its shutdown has begun, the process is never ready again.

/** Resolves to a sentence about the fault, or to undefined if there is none. */
export type ReadinessCheck = () => Promise<string | undefined>;

const CHECK_LIMIT_MS = 2_000;

export class Readiness {
  readonly #checks = new Map<string, ReadinessCheck>();
  readonly #vital = new Map<string, ReadinessCheck>();
  #phase: 'running' | 'ending' = 'running';

  addCheck(name: string, check: ReadinessCheck): void {
    this.#checks.set(name, check);
  }

  /** Adds a check for `/livez`. A fault here restarts the process, so check only what cannot recover by itself. */
  addVitalCheck(name: string, check: ReadinessCheck): void {
    this.#vital.set(name, check);
  }

  /** The faults that the vital checks find, by name of the check. */
  async findVitalFaults(): Promise<Record<string, string>> {
    return await runChecks(this.#vital);
  }

  /** Makes the process not ready for the rest of its life. */
  beginShutdown(): void {
    this.#phase = 'ending';
  }

  get isEnding(): boolean {
    return this.#phase === 'ending';
  }

  /** The faults by name of the check; none if the process is ready. A check that hangs has failed. */
  async findFaults(): Promise<Record<string, string>> {
    if (this.isEnding) return { shutdown: 'The process is shutting down.' };
    if (this.#checks.size === 0) return { start: 'The process is still starting.' };
    return await runChecks(this.#checks);
  }
}

async function runChecks(checks: ReadonlyMap<string, ReadinessCheck>): Promise<Record<string, string>> {
  const results = await Promise.all(
    [...checks].map(async ([name, check]) => [name, await runCheck(check)] as const),
  );
  const faults = results.filter((result): result is [string, string] => result[1] !== undefined);
  return Object.fromEntries(faults);
}

async function runCheck(check: ReadinessCheck): Promise<string | undefined> {
  const limit = Promise.withResolvers<string>();
  const timer = setTimeout(() => limit.resolve(`No answer within ${CHECK_LIMIT_MS} ms.`), CHECK_LIMIT_MS);
  try {
    return await Promise.race([check(), limit.promise]);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    clearTimeout(timer);
  }
}
