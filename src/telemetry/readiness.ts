// Whether the process is ready for work, by named checks of its role, and whether only a restart can help, by vital
// checks. Once its shutdown has begun, the process is never ready again. A report has words that tell a stranger nothing;
// the log has the faults.
import type { Log } from './log.ts';
import { type Now, OnceASecond } from './once-a-second.ts';

/** Resolves to a sentence about the fault, or to undefined if there is none. Rejects if what it asks does not answer. */
export type ReadinessCheck = () => Promise<string | undefined>;

export interface CheckOptions {
  /**
   * Once the check has passed, silence does not make the process unready: only a fault that the check finds does. For
   * what all replicas ask alike, where an unready replica helps nobody.
   */
  allowsSilence?: boolean;
  /** A fault never makes the process unready: a person must mend it, and the process does the rest of its work. */
  isAdvice?: boolean;
}

/** `degraded`: ready, although a check gets no answer, or has advice. */
export interface HealthReport {
  status: 'ok' | 'degraded' | 'failing' | 'starting' | 'ending';
  checks: Record<string, 'ok' | 'failing'>;
}

/** Less than the kubelet waits for the answer, so that the log names the check that takes too long. */
export const CHECK_LIMIT_MS = 1_500;

export class Readiness {
  readonly #checks: CheckList;
  readonly #vital: CheckList;
  #phase: 'running' | 'ending' = 'running';

  constructor(log: Pick<Log, 'info' | 'warn'>, now?: Now) {
    this.#checks = new CheckList(log, now);
    this.#vital = new CheckList(log, now);
  }

  /** Adds a check for `/readyz`. */
  addCheck(name: string, check: ReadinessCheck, options?: CheckOptions): void {
    this.#checks.add(name, check, options);
  }

  /** Adds a check for `/livez`. A fault here restarts the process, so check only what cannot recover by itself. */
  addVitalCheck(name: string, check: ReadinessCheck): void {
    this.#vital.add(name, check);
  }

  /** Makes the process not ready for the rest of its life. */
  beginShutdown(): void {
    this.#phase = 'ending';
  }

  get isEnding(): boolean {
    return this.#phase === 'ending';
  }

  /** For `/readyz`. At most a second old. */
  async readReadiness(): Promise<HealthReport> {
    if (this.isEnding) return { status: 'ending', checks: {} };
    if (this.#checks.isEmpty) return { status: 'starting', checks: {} };
    return await this.#checks.report();
  }

  /** For `/livez`. At most a second old. */
  async readLife(): Promise<HealthReport> {
    return await this.#vital.report();
  }
}

interface KnownCheck extends CheckOptions {
  run: ReadinessCheck;
  hasPassed: boolean;
}

/** What a check found. `isSilent`: nothing, because it got no answer. */
interface Finding {
  name: string;
  fault: string | undefined;
  isSilent: boolean;
}

/** Runs its checks together, at most once a second however many ask, and logs what changes. */
class CheckList {
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #checks = new Map<string, KnownCheck>();
  /** What the log knows; undefined is well. */
  readonly #faults = new Map<string, string | undefined>();
  readonly #report: OnceASecond<HealthReport>;

  constructor(log: Pick<Log, 'info' | 'warn'>, now?: Now) {
    this.#log = log;
    this.#report = new OnceASecond(() => this.#run(), now);
  }

  get isEmpty(): boolean {
    return this.#checks.size === 0;
  }

  add(name: string, run: ReadinessCheck, options: CheckOptions = {}): void {
    this.#checks.set(name, { ...options, run, hasPassed: false });
    this.#report.forget();
  }

  /** Never rejects. */
  report(): Promise<HealthReport> {
    return this.#report.get();
  }

  async #run(): Promise<HealthReport> {
    const findings = await Promise.all(
      [...this.#checks].map(async ([name, { run }]) => ({ name, ...(await runCheck(run)) })),
    );
    for (const { name, fault } of findings) this.#tell(name, fault);
    const checks = Object.fromEntries(
      findings.map(({ name, fault }) => [name, fault ? 'failing' : 'ok'] as const),
    );
    return { status: this.#statusOf(findings), checks };
  }

  #statusOf(findings: readonly Finding[]): HealthReport['status'] {
    const faults = findings.filter(({ name, fault }) => {
      const check = this.#checks.get(name);
      if (check && fault === undefined) check.hasPassed = true;
      return fault !== undefined;
    });
    const isBorne = ({ name, isSilent }: Finding) => {
      const check = this.#checks.get(name);
      return check?.isAdvice === true || (isSilent && check?.allowsSilence === true && check.hasPassed);
    };
    if (!faults.every(isBorne)) return 'failing';
    return faults.length > 0 ? 'degraded' : 'ok';
  }

  #tell(name: string, fault: string | undefined): void {
    const isFirst = !this.#faults.has(name);
    const before = this.#faults.get(name);
    if (fault === before && !isFirst) return;
    this.#faults.set(name, fault);
    if (fault === undefined) {
      if (!isFirst) this.#log.info({ check: name }, 'A health check is well again.');
      // What is not well yet while the process starts is no fault.
    } else if (isFirst) this.#log.info({ check: name, fault }, 'A health check is not well yet.');
    else this.#log.warn({ check: name, fault }, 'A health check fails.');
  }
}

async function runCheck(check: ReadinessCheck): Promise<Omit<Finding, 'name'>> {
  const limit = Promise.withResolvers<Omit<Finding, 'name'>>();
  const tooLate = { fault: `No answer within ${CHECK_LIMIT_MS} ms.`, isSilent: true };
  const timer = setTimeout(() => limit.resolve(tooLate), CHECK_LIMIT_MS);
  try {
    return await Promise.race([check().then((fault) => ({ fault, isSilent: false })), limit.promise]);
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error), isSilent: true };
  } finally {
    clearTimeout(timer);
  }
}
