// Whether this process may be given work (named checks of its role, and never again once its end has begun), and
// whether only a fresh process can help (vital checks).

/** Resolves to a sentence that says what is missing, or to undefined when all is well. */
export type ReadinessCheck = () => Promise<string | undefined>;

const CHECK_LIMIT_MS = 2_000;

export class Readiness {
  readonly #checks = new Map<string, ReadinessCheck>();
  readonly #vital = new Map<string, ReadinessCheck>();
  #phase: 'running' | 'ending' = 'running';

  addCheck(name: string, check: ReadinessCheck): void {
    this.#checks.set(name, check);
  }

  /** For `/livez`: a fault here ends the process, so only for what does not mend itself. */
  addVitalCheck(name: string, check: ReadinessCheck): void {
    this.#vital.set(name, check);
  }

  /** As `findFaults`, of the vital checks; empty without any. */
  async findVitalFaults(): Promise<Record<string, string>> {
    return await runChecks(this.#vital);
  }

  /** From here on not ready: the process is about to end. */
  beginShutdown(): void {
    this.#phase = 'ending';
  }

  get isEnding(): boolean {
    return this.#phase === 'ending';
  }

  /** What is missing, by name of the check; empty when the process is ready. A check that hangs counts as failed. */
  async findFaults(): Promise<Record<string, string>> {
    if (this.isEnding) return { shutdown: 'The process is about to end.' };
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
