// What is known of tokens, for a while. Each subject has few places of its own, so that who has many tokens pushes out
// nobody else's.
import { ExpiringMap } from './expiring-map.ts';

const MOST_SUBJECTS = 5_000;
const MOST_OF_SUBJECT = 32;

export class KeptTokens<Value> {
  readonly #mostMs: number;
  readonly #now: () => number;
  readonly #subjects: ExpiringMap<ExpiringMap<Value>>;

  /** No token is kept for longer than `mostMs`. */
  constructor(mostMs: number, now: () => number) {
    this.#mostMs = mostMs;
    this.#now = now;
    this.#subjects = new ExpiringMap(MOST_SUBJECTS, now);
  }

  get(subject: string, token: string): Value | undefined {
    return this.#subjects.get(subject)?.get(token);
  }

  set({ subject, token }: { subject: string; token: string }, value: Value, forMs: number): void {
    const tokens = this.#subjects.get(subject) ?? new ExpiringMap<Value>(MOST_OF_SUBJECT, this.#now);
    tokens.set(token, value, Math.min(forMs, this.#mostMs));
    this.#subjects.set(subject, tokens, this.#mostMs);
  }
}
