// The program of the senders, in a process of its own, so that neither the test nor the product holds them up. Each beat
// is sent exactly once, at its time, whatever became of those before it: nothing is sent again. A beat waits for no other
// one: where no connection is idle it opens a new one.
import { Agent, request } from 'node:http';
import { Balancer } from './balancer.ts';
import type { LostBeat, SenderOrder, SenderReport, SenderSettings } from './sender-protocol.ts';

/** Longer than the service may take for an answer. */
const TIMEOUT_MS = 12_000;
/** Beats come this much earlier or later than their period, as a part of it. */
const JITTER = 0.05;

class Senders {
  readonly #settings: SenderSettings;
  readonly #agents: Agent[];
  readonly #balancer: Balancer;
  readonly #timers: (NodeJS.Timeout | undefined)[] = [];
  readonly #lastSentAt: number[] = [];
  #longestGapMs: number[] = [];
  #sent = 0;
  #accepted = 0;
  #slowestMs = 0;
  #lost: LostBeat[] = [];

  constructor(settings: SenderSettings) {
    this.#settings = settings;
    this.#agents = settings.apis.map(
      () => new Agent({ keepAlive: true, scheduling: 'lifo', maxFreeSockets: Number.POSITIVE_INFINITY }),
    );
    this.#balancer = new Balancer(settings.apis);
    settings.addresses.forEach((_, index) => {
      this.#beatIn(index, Math.random() * settings.periodMs);
    });
  }

  die(index: number): void {
    clearTimeout(this.#timers[index]);
  }

  report(): SenderReport {
    const report: SenderReport = {
      sent: this.#sent,
      accepted: this.#accepted,
      lost: this.#lost,
      slowestMs: Math.round(this.#slowestMs),
      lastSentAt: this.#lastSentAt,
      longestGapMs: this.#longestGapMs,
    };
    this.#sent = 0;
    this.#accepted = 0;
    this.#slowestMs = 0;
    this.#lost = [];
    this.#longestGapMs = [];
    return report;
  }

  #beatIn(index: number, ms: number): void {
    this.#timers[index] = setTimeout(() => this.#beat(index), ms);
  }

  #beat(index: number): void {
    const { periodMs } = this.#settings;
    this.#beatIn(index, periodMs * (1 + JITTER * (2 * Math.random() - 1)));
    const now = Date.now();
    const gapMs = now - (this.#lastSentAt[index] ?? now);
    this.#longestGapMs[index] = Math.max(this.#longestGapMs[index] ?? 0, gapMs);
    this.#lastSentAt[index] = now;
    this.#sent += 1;
    this.#send(index, now);
  }

  #send(index: number, sentAt: number): void {
    const { apis, addresses } = this.#settings;
    const number = this.#balancer.choose(index);
    const began = performance.now();
    const sent = request(`${apis[number]}/ping/${addresses[index]}`, { agent: this.#agents[number] });
    sent.setTimeout(TIMEOUT_MS, () => sent.destroy(Object.assign(new Error(), { code: 'timeout' })));
    sent.once('error', (error: NodeJS.ErrnoException) => {
      this.#lost.push({ sentAt, outcome: error.code ?? 'error' });
    });
    sent.once('response', (answer) => {
      this.#slowestMs = Math.max(this.#slowestMs, performance.now() - began);
      if (answer.statusCode === 200) this.#accepted += 1;
      else this.#lost.push({ sentAt, outcome: String(answer.statusCode) });
      answer.on('error', () => undefined);
      answer.resume();
    });
    sent.end();
  }
}

let senders: Senders | undefined;

process.on('message', (order: SenderOrder) => {
  if ('start' in order) senders = new Senders(order.start);
  else if ('die' in order)
    for (const { index, inMs } of order.die) setTimeout(() => senders?.die(index), inMs);
  else process.send?.(senders?.report());
});
process.on('disconnect', () => process.exit());
