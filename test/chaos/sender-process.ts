// The process of the senders, seen from the test.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Death, SenderOrder, SenderReport, SenderSettings } from './sender-protocol.ts';

const PROGRAM = fileURLToPath(new URL('senders.ts', import.meta.url));
/** Senders are other machines: the load of this one must not make them late. Only root may do that. */
const PRIORITY = -15;

export class SenderProcess {
  readonly #child: ChildProcess;

  constructor(settings: SenderSettings) {
    this.#child = fork(PROGRAM, { execArgv: [], env: { PATH: process.env.PATH } });
    try {
      setPriority(this.#child.pid ?? 0, PRIORITY);
    } catch {
      // Then a sender that is late by itself is told apart by its own record.
    }
    this.#order({ start: settings });
  }

  /** Ends these senders for ever, each at its moment. */
  die(deaths: Death[]): void {
    this.#order({ die: deaths });
  }

  /** What happened since the last report. */
  async report(): Promise<SenderReport> {
    const answered = once(this.#child, 'message');
    this.#order({ report: true });
    const [report] = await answered;
    return report as SenderReport;
  }

  async end(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.disconnect();
    await exited;
  }

  #order(order: SenderOrder): void {
    this.#child.send(order);
  }
}
